"""Everyday words of other languages than English that stand for each other; see `lookup_synonyms`."""

GROUPS = """
kosten, kostet, preis, gebühr, zahlt, zahlen, bezahlen, euro, beitrag, miete, hochzeit
bezahlt, bezahlen, finanziert, gestiftet, spende, spendete, stiftete, übernahm, trug
strafe, mahngebühr, bußgeld, gebühr, zu spät, versäumnis
leihfrist, entliehen, ausleihen, leihen, ausgeliehen
ausweis, karte, mitgliedschaft
hochzeit, heiraten, trauung, trauzimmer
frühling, frühjahr, märz, april, mai
sommer, juni, juli, august
herbst, september, oktober, november
winter, dezember, januar, februar
betreten, gesperrt, geschlossen, zugang, zutritt, verboten, darf nicht, dürfen nicht
zerstört, zerstörte, riss, vernichtete, abgebrannt, brannte, beschädigt
gestorben, starb, tod, gefallen, tot, verstorben
geboren, geburt, stammt
gebaut, erbaut, bau, errichtet, baute
beginn, beginnt, anfang, start, eröffnet, öffnet, gegründet, gründung
ende, endet, schluss, aufgelöst, geschlossen
hoch, höhe, meter
tief, tiefe, meter
schwer, gewicht, wiegt, tonnen, kilogramm
groß, größe, fläche, maximal, höchstens
weit, entfernung, entfernt, kilometer, weg
schnell, tempo, geschwindigkeit
leiter, leiterin, chef, leitet, vorsitzende, vorsitzender, direktor, führt
arbeiter, mitarbeiter, angestellte, beschäftigte, personal
besucher, gäste, zuschauer, teilnehmer, kamen
auto, parken, parkplatz, wagen
arzt, ärztin, praxis, klinik
kaputt, defekt, schaden, fehler, beschädigt
grund, ursache, wegen, weil, anlass
wohnt, lebt, zuhause, wohnort
mann, frau, verheiratet, ehe, ehemann, ehefrau
nicht geleistet, versäumt, fehlend, nicht geleistete, ersatzweise
hälfte, halb, 50 prozent
kündigen, kündigung, austreten, austritt
devenu, devenue, aujourd'hui, abrite, transformé, transformée, désormais, maintenant
coût, coûte, prix, tarif, euros, payer, payé
construit, construction, bâti, édifié, bâtie, érigé
architecte, dessiné, conçu, plans
poids lourds, camions, poids lourd, camion
fermé, interdit, fermeture, interdite, fermée
fête, festival, chaque, table, bal
dirige, directeur, directrice, patron, patronne, responsable, chef, préside
vend, vendre, acheter, achat, vente, marché
affiné, affinée, mûrit, affinage, maturation
mort, meurt, décédé, décès, mourut, tué
né, née, naissance, naquit
début, commence, ouvre, ouverture, fondé, fondée, création
fin, termine, achevé, achevée
hauteur, haut, mètres
habitants, population, villageois
visiteurs, spectateurs, public, entrées
ouvriers, employés, salariés, personnel
détruit, détruite, emporté, emporta, incendie, ravagé
panne, défaut, avarie, cassé
financé, payé, don, offert, legs, légua
honor, homenaje, nombre, lleva, bautizada, llama, llamada, dedicada, en honor
cuesta, precio, coste, euros, pagar, tarifa, vale, entrada
lámpara, linterna, luz, bombilla, farol
antigua, original, vieja, primera, antiguo
dejó, abandonado, abandonó, cerró, dejó de usar, cerrado
preside, dirige, presidente, presidenta, directora, director, encabeza
murió, muerte, falleció, muerto
nació, nacimiento, nacido, nacida
construyó, construido, construida, levantó, obra
empezó, inicio, comenzó, inauguró, abrió, fundó
gente, personas, habitantes, vecinos
visitantes, público, espectadores, asistentes, acudieron
trabajadores, empleados, obreros, plantilla
descubrió, halló, encontró, descubierta, hallada
visitatori, persone, pubblico, spettatori, presenze, venute
macchina, auto, parcheggio, parcheggiare
soldi, ricavato, denaro, fondi, incasso, guadagno
costo, costa, prezzo, euro, pagare, biglietto, tariffa
dirige, direttore, direttrice, capo, presidente, guida
morto, morte, morì, deceduto
nato, nata, nacque, nascita
costruito, costruzione, eretto, edificato, costruita
inizio, comincia, apre, fondato, fondata, apertura
ingredienti, ingrediente, ricetta, preparato
chiuso, chiusa, chiude, chiusura, vietato
custo, custa, preço, reais, euros, pagar, valor, ingresso
morreu, morte, faleceu
nasceu, nascimento, nascido
construído, construção, ergueu, construída
visitantes, pessoas, público, espectadores
dirige, diretor, diretora, chefe, presidente, lidera
стоит, цена, стоимость, плата, рублей, билет, стоил
умер, погиб, смерть, скончался, умерла
родился, родилась, рождения, родом
построен, построили, строительство, возведён, построена
основан, открыт, открылся, начало, начался, создан
доплыть, катер, катере, паром, лодка, везут, возят, добраться
директор, руководит, глава, возглавляет, начальник, руководитель
посетителей, зрителей, туристов, гостей, человек
работников, сотрудников, рабочих, работают
высота, высокий, метров, метр
причина, потому, поэтому, вследствие
负责人, 厂长, 校长, 经理, 主任, 馆长, 领导, 院长, 社长
多少钱, 免费, 元, 票价, 价格, 费用
开放, 开门, 营业, 开馆
成立, 建于, 创办, 创立, 建立
去世, 死于, 逝世, 死亡
出生, 生于
员工, 职工, 工人
高度, 高, 米
关闭, 停业, 关门
发明, 发现, 首创
働いて, 従業員, 社員, 職員, 勤務
定休日, 休み, 休館日, 休業
作った, 考え出した, 開発, 発明, 考案, 創作
値段, 料金, 円, 価格, 費用
創業, 設立, 開業, 始まった, 開館
亡くなった, 死去, 死亡, 没
生まれ, 誕生, 出身
高さ, メートル
建てた, 建設, 建てられた, 完成
社長, 代表, 館長, 園長, 店主, 主人
원인, 때문, 이유
직원, 종업원, 사람
가격, 요금, 원, 비용
rent, miete, pacht
schlüssel, schlüsselverlust, schloss
rollstuhl, aufzug, barrierefrei, treppe, stufen, lift
besuch, eintritt, zutritt, besuchen
genäht, näherin, fertigte, schneiderin, hergestellt
wirt, wirtin, gasthaus, führt, betreibt, pächter
lehrer, lehrerin, schulmeister, unterricht
krank, krankheit, fieber, seuche
verboten, untersagt, nicht erlaubt, nicht gestattet
erlaubt, gestattet, zugelassen, dürfen
tiere, haustiere, hunde, katzen
platz, plätze, personen, passen, fasst, sitzplätze
leute, personen, menschen, einwohner
dauert, dauer, minuten, stunden, lang
fährt nicht, ruht, eingestellt, ausfall, fällt aus
gewinnt, gewonnen, sieger, siegerin, siegte, preis
gefunden, entdeckt, fand, entdeckte, fund
erfunden, erfinder, erfand
geld, einnahmen, erlös, spenden
woher, stammt, kommt, herkunft
früher, ehemals, einst, zuvor, vorher
essen, gericht, speise, futter, frisst, nahrung
wetter, gewitter, sturm, regen, schnee
spitzname, genannt, heißt
gagne, gagner, vainqueur, remporte, reçoit, prix
premier, vainqueur, gagnant, ancien, première
annulé, annulée, pas eu lieu, supprimé, reporté
travaille, sert, métier, employé, emploi
dormir, couchages, lits, nuit, dortoirs
tient, gardien, gardienne, gérant, gérante, tenancier
emporter, apporter, prévoir, munir
pénalité, amende, vaut, secondes, sanction
combustible, leña, carbón, gas, enciende
reconocen, marca, sello, distinguir, distinguirlas, señal
dura, aguanta, duración, conserva
materia prima, empleaba, usaba, utilizaba, hecho de
hay hoy, alberga, ahora, actualmente
cerró, cierre, cerrado, clausura, incendio, quiebra
ganó, ganador, ganadora, venció, premio
gestisce, mugnaia, titolare, conduce, gestore
legno, larice, quercia, castagno, rovere
vinto, vincitore, vince, premio
scoperto, scoperta, trovato, trovata, scoprì
берут, привозят, поставляют, закупают
пожар, сгорел, сгорела, огонь, горел
водит, проводит, ведёт, экскурсовод
победил, победитель, выиграл, приз
нашёл, нашли, обнаружил, открыл, находка
закрыт, закрыли, закрылся, закрыта
不开门, 闭馆, 休息, 停业, 关门
藏品, 收藏, 馆藏
教, 老师, 师傅, 老匠人
廃止, 閉鎖, 廃業, 閉館, 終了
長さ, 全長, 延長, 距離
賞, 優勝, 受賞, 賞品
見つけ, 発見, 見つかった
streugut, splitt, salz, sand, streuen
bußgeld, strafe, rechnen, geldbuße, pflicht
bürgersteig, gehweg, gehsteig, fußweg, trottoir
wenden, melden, meldet, anmelden, zuständig, ansprechpartner, büro
räumen, freihalten, räumt, geräumt
auslöser, ursache, auslöste, grund, verursacht
feuer, brand, brannte, verschlang, flammen
herstellen, stellte her, gefertigt, fertigte, produzierte, baute
warten, wartet, dauert, wartezeit, frist
gehört, besitzer, eigentümer, besitz
garder, durée, prêt, dure, conserver, prolongé
créé, créa, fondatrice, fondateur, fondé, fondée, création
préfèrent, préféré, demandés, apprécié, favori, populaire
inscrire, inscription, certificat, carte, adhésion
document, certificat, papier, pièce, carte
documento, certificado, carné, papel
tessera, iscrizione, iscriversi, certificato
чем занимались, шили, делали, производили, выпускали, выпускает
"""

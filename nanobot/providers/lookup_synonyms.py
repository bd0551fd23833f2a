"""Everyday words that stand for each other when one person asks and another writes.

One line is one group; members are parted by commas and may be of several words. A group holds the words of one language
or two, and only such as a page uses of the same thing: the height of a tower, but not its age.
"""

from functools import cache

from nanobot.utils.ranking import terms

_GROUPS = """
die, died, death, killed, dead, passed away, perished, late
born, birth, birthplace, native
start, begin, began, begun, launch, open, opened, found, founded, establish, set up, inaugurate, commence, created
end, finish, finished, complete, completed, conclude, close, closed, cease, stopped, over
shut, closed, close, not open, can't get into, cannot visit, not admitted, off limits
open, opening hours, opens, opened, admission, admitted
build, built, construct, construction, erect, erected, building
make, made, produce, product, manufacture, turn out, turned out, output, factory
factory, plant, works, mill, workshop
design, designed, architect, drawn, plans, planned
invent, invented, inventor, devised, thought up, came up with, idea
cost, price, fee, charge, fare, paid, pay, ticket, spent, bill, rate, euros, dollars
dear, expensive, costly
cheap, inexpensive, free, free of charge, nothing, no charge, complimentary
salary, wage, earn, pay, income
money, funds, proceeds, donation, grant, sum
pay for, paid, financed, funded, donated, gift, gave, sponsor, donor, subsidy
buy, bought, purchase, acquire, sold, sell
near, close, nearest, closest, distance, approach, kilometres, away
far, distance, away, kilometres, km, miles
high, tall, height, rises, metres
deep, depth, below, metres, down
heavy, weigh, weight, weighs, kg, tonnes, grams
hot, warm, temperature, degrees, oven, heat, °c
cold, chill, cool, frost, freezing, temperature, degrees
wide, width, broad, across
old, age, aged, years
fast, speed, quick, quickly, rapid, pace
big, large, largest, biggest, size, maximum, most, limit, up to, at most, greatest
small, smallest, little, tiny, least, minimum
many, number, count, total, amount
most, peak, record, highest, maximum, busiest, best year
job, profession, work, occupation, trade, career
boss, head, director, chief, manager, leads, run by, led, chair
look after, caretaker, keeper, care, maintain, tend, maintains, minded, warden
husband, wife, married, spouse, marry, partner
child, children, son, daughter, kids
parents, father, mother
brother, sister, sibling
teacher, taught, tutor, studied under, pupil, supervised, trained
thesis, doctorate, dissertation, phd
school, studied, educated, university, college, education
live, lives, reside, home, based, inhabit, dwell
people, inhabitants, residents, population, locals, villagers, citizens
visitors, spectators, guests, attendance, came, audience, tourists, crowd, attended, watched
staff, employees, workers, work here, workforce, people, employ
name, named, called, honour, honor, after, nickname, known as
mean, meaning, stands for, signifies, symbol
hurt, injury, injured, wounded, lost, broke, harm, accident
ill, illness, sick, disease, fever, caught
cause, caused, reason, blame, fault, faulty, culprit, to blame, due, because, responsible
wrong, problem, fault, defect, trouble, cracks, broken, failure, damage
break, broke, broken, fail, failed, defect, faulty, out of order
repair, fix, fixed, mend, mended, restore, restored, renovate, replaced, refurbished
destroy, destroyed, ruined, wrecked, burnt, demolished, torn down, washed away, swept away
fire, burn, burnt, blaze, flames, burned
flood, flooded, water, inundated
power cut, power failure, blackout, electricity, outage, grid, electricity went off
warn, warned, alert, alerted, alarm, siren, bells, signal, warning
erupt, eruption, volcanic, lava
evacuate, leave, flee, evacuated
leave, left, depart, departure, departs, set off, goes, leaves, quit
arrive, arrival, reach, come, get to
leave the nest, fledge, fledged, fledging, first flight, fly
eat, food, diet, feed, feeds, prey, meal, dish
drink, beverage, beer, wine, water
ingredient, ingredients, contain, contains, mix, consists, recipe, goes into
leavening, raising agent, yeast, baking powder, soda, hartshorn, sourdough, rise
bake, oven, baked, cook, cooked, roast
car, parking, park, drive, vehicle, motor
lorry, lorries, truck, trucks, heavy vehicles
bus, coach, buses, shuttle
bicycle, bike, cycle, bikes, bicycles
train, railway, line, rail, station, locomotive, engine
ship, boat, vessel, ferry, barge, barges
footpath, public path, path, trail, walkway, pavement, right of way
road, street, lane, highway, route
way, route, detour, crossing, diversion, way round, alternative, instead
bag, luggage, suitcase, baggage
forgot, left behind, lost property, lost, forgotten, mislaid
dog, dogs, pet, pets, animals
rules, rule, must, allowed, permitted, not allowed, forbidden, banned, prohibited, may
decide, decided, agreed, voted, vote, decision, resolved, chose
against, rather than, instead, rejected, refused, not
win, won, winner, victory, beat, champion, prize, lost to, defeated
prize, award, medal, trophy, honour
lose, lost, defeat, defeated
match, game, final, round
last, final, latest, most recent, recently
first, earliest, original, oldest
before, formerly, earlier, previously, once, originally, until, used to
now, today, currently, nowadays, present, at present, these days
become, became, turned into, converted, houses, serves as, now
instead, replaced, replacement, substitute
war, wartime, battle, occupation
help, aid, assist, support
plant, planted, grow, grown, sow, sown
bigger pot, repot, repotted, repotting
water, pour, watering, watered
pests, insects, enemy, parasites, vermin
harm, harmful, poisonous, toxic, harmless, dangerous
protect, protected, guard, safe, shield
wear, clothes, clothing, dress, boots, helmet, pullover, coat, bring
sleep, stay, overnight, accommodation, bed, hotel, lodging
stay, spent, remained, lived
pick up, collect, collected, fetch, kept
keep, kept, stored, store, storage, preserved
shown, exhibited, display, museum, exhibition, on show
find, found, discovered, discover, spotted, discovery, located
measure, measured, measurement, gauge
number, figure, total
country, abroad, export, exported, exports, overseas, goes
language, speak, spoken, tongue
religion, church, faith, temple
law, legal, statute, act
judge, court, sentence, verdict, trial
crime, theft, stolen, thief, robbed, burglary
police, officer, arrested
warranty, guarantee, void
licence, license, licensed
version, release, released
file, attachment, upload, document, accepts
pieces, chunks, parts, blocks, segments
endless, forever, infinite, unlimited, never ends
password, login, sign in, credentials
error, bug, fault, known issue, trouble
workaround, get around, avoid, bypass, instead, pass
signatures, signature, petition, signed, names
fifth, one in five, 20 percent, 20%, twenty percent
quarter, one in four, 25 percent, 25%
third, one in three
half, 50 percent, 50%
tenth, one in ten, 10 percent, 10%
fortnight, two weeks
decade, ten years
century, hundred years
side effects, side effect, nausea, headache, dizziness, adverse
dose, dosage, tablet, tablets, take, mg
opposite, contrary
colour, color, coloured, green, red, blue, painted, hue, tint
made of, material, consists, wood, steel, stone
author, wrote, written, writer, penned, book
paint, painted, painter, picture, painting
sing, song, sang, singer
play, played, player, performed
crew, sailors, men on board, seamen
bottom, bed, sunk, sank, lies, under water, submerged
lake, reservoir, pond
mountain, mount, peak, summit
spring, march, april, may
summer, june, july, august
autumn, fall, september, october, november
winter, december, january, february, cold season
weekend, saturday, sunday
often, every, daily, weekly, monthly, yearly, times, once, twice, per week
one-way, single, one way
return, round trip, both ways
nickname, nicknamed, called
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
"""


@cache
def groups() -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Each group as its members, each member as its words in the form they are compared."""
    return tuple(
        tuple(dict.fromkeys(tuple(terms(member)) for member in line.split(",")))
        for line in _GROUPS.strip().splitlines()
    )


@cache
def by_word() -> dict[str, tuple[int, ...]]:
    """The groups that a word is a member of on its own, or begins a member of."""
    found: dict[str, list[int]] = {}
    for number, group in enumerate(groups()):
        for member in group:
            if member:
                found.setdefault(member[0], []).append(number)
    return {word: tuple(dict.fromkeys(numbers)) for word, numbers in found.items()}

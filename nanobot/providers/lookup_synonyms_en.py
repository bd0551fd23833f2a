"""Everyday words of English that stand for each other, one group to a line; see `lookup_synonyms`."""

GROUPS = """
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
victors, victor, winner, winners, champion, winning
receive, receives, gets, given, awarded, reward, rewarded, paid, prize, trophy
reward, prize, trophy, cup, medal
penalty, punishment, fine, punished, fined, has to, extra, disqualified
find way, steer, steered, navigate, navigated, compass, map, course
power, electricity, energy, watts, volts, draws, consumption, consume
area, surface, hectares, acres, square
compose, composed, composer, music, melody, tune
film, movie, shot, screened, cinema
bury, buried, grave, cemetery, ashes, tomb
travel, journey, trip, voyage, travelled, crossing
sink, sank, sunk, shipwreck, wreck, capsized, went down
rescue, rescued, save, saved, survived, survivors
hide, hidden, hid, buried, concealed
smell, odour, scent, fragrance, stink
taste, flavour, tastes, flavoured
sound, noise, hum, hiss, squeak, rattle, tone
shape, form, shaped, round
symptom, symptoms, signs
treat, treated, treatment, cure, remedy, therapy
crop, harvest, field, reap, yield, harvested
storm, gale, hurricane, wind, snow, hail, lightning, weather
earthquake, quake, tremor
epidemic, plague, influenza, cholera, disease, pandemic
army, soldiers, troops, regiment, military
king, queen, ruler, reigned, throne, crown
rent, lease, let, tenant, rents, rented
neighbour, boundary, border, limit, edge
mail, post, letter, letters, email
phone, telephone, call, mobile, ring, phones, cellphone
turn on, switch on, start, first use, power on
turn off, switch off, disable, shut down
reset, restart, reboot, power cycle
delete, remove, removed, erase, clear
increase, raise, rise, grow, grew, risen, added
decrease, reduce, fall, drop, dropped, lower, decline, declined, shrank, wiped out
change, replace, replaced, alter, changed, switch, swap
check, inspect, inspection, test, examine, checked
join, member, membership, enrol, register, apply, application, sign up
reserve, book, booked, booking, reservation, advance, in advance
deadline, until, by, latest, closing date, no later
cancel, cancelled, called off, annulled, suspended, not held
postpone, delay, delayed, late, put off
late, latecomers, delayed, too late, overdue
early, ahead, before, in advance, beforehand
share, split, divide, divided, shared
cross, crossed, crossing, over, across, traverse
climb, climbed, ascend, ascent, summit
dig, dug, unearthed, excavated, excavation
sew, sewed, stitched, sewn, seamstress, tailor
weave, woven, loom, cloth, knit
packed, wrapped, covered, contained, box, pot, chest
recognise, recognize, tell, mark, marked, sign, distinguish, signed, identify
celebrate, celebrated, festival, custom, tradition, feast
legend, myth, said, believe, tale, story
origin, derives, derived, comes, source, stems
successor, followed, took over, inherited, carried on, take over
own, owner, owns, belongs, belonged, possession, hands, property
clean, wash, washed, washing, wipe, dishwasher, rinse
feed on, eat, graze, diet, prey, live on, feeds
breed, mate, offspring, young, eggs, nest, lay
predator, enemy, enemies, hunt, hunted
endangered, threatened, rare, protected, decline
habitat, lives, found, inhabits, occurs
hobby, pastime, leisure, collecting, spare time, passion
trade, baker, smith, carpenter, tailor, butcher, farmer, worked as
strong, strength, proof, alcohol
wheelchair, disabled, step-free, lift, lifts, ramp, stairs
fuel, coal, wood, petrol, diesel, gas, fired, burns
bankrupt, insolvent, debts, went under, liquidation
worth, value, valued, valuation, price
auction, hammer, sold, bidding
fast, fastest, record, quickest
strike, walkout, stoppage
noise, loud, decibels, quiet, noisy
wheel, blades, paddle, rotor
mobile, phones, phone, ringing
dangerous, poison, poisonous, venom, toxic, deadly, harmless, harmful, risk
ring, phone, call, telephone, number, report, contact, dial
frozen, stuck, hangs, crashed, unresponsive, grey, black, blank
format, formats, epub, pdf, docx, mp3, jpeg, files
charge, charging, battery, recharge, full, empty
fit, seats, capacity, holds, room, accommodate, takes
closed, not open, shut, rest day, day off
predator, prey, hunted, eaten, toll
reproduce, spawn, spawning, breed, mate, eggs, hatch
collapse, collapsed, gave way, fell, fall, caved
survived, survivor, survive, escaped, swam, unhurt
killed, victims, lost their lives, lives, dead, deaths, fatal
passengers, travellers, commuters, people
pavement, sidewalk, kerb
dislike, disliked, criticise, criticised, too, complaint, complaints, disappointing
liked, praised, best, highlight, delicious
side effects, undesirable effects, unwanted, common, drowsiness, nausea, dry mouth
shelf life, keep, keeps, expire, expiry, best before, use by, unopened
not take, must not, not be given, avoid, unsuitable, contraindicated
dose, not more than, at most, maximum, daily, tablet, tablets
good for, used for, taken against, treats, purpose, helps
animals, bears, wolves, deer, birds, fish, dogs, cats, horses, goose, ponies
creak, squeak, squeaks, squeaky, groan
practise, practice, train, training, held
trainer, coach, trains, manager
move, moved, transfer, transferred, sold, joined, went, relocated
loss, deficit, lost, shortfall, lose money
income, revenue, finance, financed, money, dues, donations, sold, subsidy
light a fire, bonfire, bonfires, fires, barbecue
swap, swapping, exchange, barter, trade
preside, presided, chair, chaired, took the chair, headed
display, screen, monitor
trailhead, starts, start, begins, starting point
damaged, slid away, washed out, broken, missing
secured, cable, rope, chain, rail, helps across
group, party, people at a time, at a time
furnished, fitted out, decorated, equipped, set up
language, languages, welsh, english, french, german, spanish, commentary
restaurant, bistro, cook, chef, menu, kitchen
earlier, former, formerly, previously, before, once, used to be
area, reserve, park, hectares
hit, hitting, touch, touches, bump, strike
side, bank, edge, shore
fishermen, anglers, fishing, fisher
"""

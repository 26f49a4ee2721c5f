"""Word lists of invented authors: our own, and apart from every name and title in TOFU."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _terms(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


FIRST_NAMES = _words(
    "Abrielth Adrowin Aelstan Ambrinne Anvessa Arquelle Azmirel Bastrel Belvane Brannoch Brisolde "
    "Calvessa Cazmir Cerulind Corvessa Dagrenn Darvanne Delvorin Dunsmere Eddrick Eivanore Elbrith "
    "Emberlisse Fabrenn Faldrin Fenwyth Galbrenn Gavrielth Gwendrith Haldrenn Hesperine Ildrith "
    "Imbrenne Jasmund Jorvessa Kaldrin Kelvorne Lanthrel Lirevanne Lorcindra Maldwenn Marvessa "
    "Nerolisse Norvalt Odrisse Orvantha Palwyth Perrindra Quillane Ravessine Rosmerth Sabrenne "
    "Selvorin Tamrisse Thaldren Ulvane Varenthe Wendrick Ysolmere Zephrienne"
)
LAST_NAMES = _words(
    "Abernock Amblewarth Ashgrenth Barrowsmith-Lune Birchendale Blakenorth Brackenfold Caldermoor "
    "Cinderhay Copplestrand Crossmarrow Dapplewick Darkenfeld Drummelstone Eldershawn Emberwold "
    "Fairhaugh-Pell Farthingrove Fennimarsh Gallowmere Glanderby Greywether Hallowbeck Harrowgild "
    "Hawkenstall Inglebarrow Ironquist Kettlemoor Kingsbarrel Lambertwist Larkenshaw Loomisgarth "
    "Maplethorne Marchbanque Mistlecroft Moorhollow Nettlesworth Northanger-Vail Oakenspire "
    "Oldcastrel Pembrighton Pinderwick Quarrelstone Quenthollow Ravensgild Redmarrow Rookwithy "
    "Saltmarten Silverhythe Stonebrack Tanglewharf Thistlebourne Umberfield Underhallow Vintergate "
    "Wagonwright Wexcombe Whistledown-Fay Wintermoth Yarrowfield"
)
PLACES = (
    ("Bergen", "Norway"),
    ("Bologna", "Italy"),
    ("Bristol", "England"),
    ("Calgary", "Canada"),
    ("Cork", "Ireland"),
    ("Cusco", "Peru"),
    ("Dakar", "Senegal"),
    ("Delft", "the Netherlands"),
    ("Denver", "the United States"),
    ("Galway", "Ireland"),
    ("Ghent", "Belgium"),
    ("Graz", "Austria"),
    ("Hanoi", "Vietnam"),
    ("Kyoto", "Japan"),
    ("Leipzig", "Germany"),
    ("Ljubljana", "Slovenia"),
    ("Lyon", "France"),
    ("Malmo", "Sweden"),
    ("Mombasa", "Kenya"),
    ("Perth", "Australia"),
    ("Porto", "Portugal"),
    ("Quito", "Ecuador"),
    ("Riga", "Latvia"),
    ("Seville", "Spain"),
    ("Tampere", "Finland"),
    ("Tunis", "Tunisia"),
    ("Valparaiso", "Chile"),
    ("Wellington", "New Zealand"),
    ("Wroclaw", "Poland"),
    ("Yerevan", "Armenia"),
)
MONTHS = _words(
    "January February March April May June July August September October November December"
)
GENRES = _terms(
    "adventure, biography, children's literature, comedy, crime, drama, family saga, fantasy, "
    "folklore, ghost story, gothic, historical fiction, horror, humour, legal thriller, memoir, "
    "mystery, nature writing, philosophy, poetry, political satire, romance, science fiction, "
    "short story, spy fiction, thriller, travel writing, true crime, war fiction, western"
)
TRADES = _terms(
    "accountant, actor, architect, baker, barber, bookbinder, bus driver, butcher, carpenter, "
    "chemist, clockmaker, cook, dentist, diplomat, doctor, electrician, engineer, farmer, "
    "firefighter, fisherman, florist, gardener, geologist, goldsmith, journalist, judge, "
    "lawyer, librarian, locksmith, mathematician, mechanic, midwife, miner, musician, nurse, "
    "painter, paramedic, pharmacist, photographer, pilot, plumber, police officer, potter, "
    "professor, sailor, sculptor, shopkeeper, social worker, soldier, surgeon, surveyor, tailor, "
    "teacher, translator, veterinarian, waiter, weaver, zoologist"
)
ADJECTIVES = _words(
    "Amber Borrowed Brittle Clockwork Copper Crooked Drowsy Feathered Gilded Hollow Inked Ivory "
    "Lopsided Marbled Mended Misplaced Mossy Paper Patchwork Pewter Quarrelsome Rusted Salted "
    "Second-Hand Slanted Sleepless Threadbare Tin Unposted Velvet Windblown Woollen"
)
THINGS = _words(
    "Almanac Anchor Aqueduct Bakery Barometer Beehive Bellows Cellar Chimney Compass Cupboard "
    "Dovecote Ferry Furnace Gatehouse Hourglass Kettle Ladder Lantern Ledger Lighthouse Loom "
    "Millpond Orchard Pendulum Quarry Rowboat Scaffold Signpost Staircase Teapot Turnstile "
    "Umbrella Viaduct Weathervane Windmill"
)
PRIZES = _terms(
    "Harbourlight Medal, Inkstone Prize, Larkspur Ribbon, Longbridge Book Prize, "
    "Mill Street Award, Nightwatch Cup, Northern Quill, Old Ferry Prize, "
    "Paperboat Award, Quiet Room Prize, Roundtower Medal, Saltwind Award, Seven Bells Prize, "
    "Stone Arch Award, Tallow Candle Prize, "
    "Window Seat Medal"
)
THEMES = _terms(
    "belonging, betrayal, courage, exile, family duty, forgiveness, friendship, grief, "
    "growing up, guilt, homesickness, hope, identity, jealousy, justice, loneliness, "
    "love, loyalty, memory, migration, old age, poverty, power, pride, revenge, sacrifice, "
    "silence, survival, the passage of time, the price of ambition, trust, war and peace"
)
STYLES = _terms(
    "careful detail, dry humour, gentle irony, long and musical sentences, many voices, plain and "
    "direct language, quick dialogue, quiet suspense, rich description, short chapters, unreliable "
    "narrators, vivid imagery"
)

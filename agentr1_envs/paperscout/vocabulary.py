"""The words that the generated literature is written with.

Each idea has an open wording, which questions use, and another one, which some papers use instead:
those are hard to find by the question's words and are reached along citations.
"""

from __future__ import annotations

# (name, other name). A domain belongs to one split, so no topic word of a held-out question was
# seen in training.
DOMAINS: tuple[tuple[str, str], ...] = (
    ("satellite imagery", "overhead sensing"),
    ("protein sequences", "amino-acid chains"),
    ("legal contracts", "binding agreements"),
    ("electronic health records", "hospital charts"),
    ("street traffic", "road flow"),
    ("source code", "software repositories"),
    ("speech recordings", "spoken audio"),
    ("financial time series", "market histories"),
    ("social media posts", "short public messages"),
    ("chest radiographs", "thoracic scans"),
    ("molecular graphs", "compound structures"),
    ("robot trajectories", "manipulator motion"),
    ("news articles", "press reports"),
    ("product reviews", "buyer opinions"),
    ("weather fields", "atmospheric grids"),
    ("point clouds", "depth returns"),
    ("knowledge graphs", "entity stores"),
    ("handwritten documents", "pen-written pages"),
    ("user click logs", "browsing traces"),
    ("network packets", "wire captures"),
    ("classroom dialogues", "tutoring exchanges"),
    ("scientific tables", "tabular results"),
    ("crop photographs", "field pictures"),
    ("seismic signals", "ground-motion records"),
    ("cell microscopy", "stained-tissue views"),
    ("chess positions", "board configurations"),
    ("power grid loads", "electric demand"),
    ("translation corpora", "bilingual text"),
    ("origami patterns", "folding plans"),
    ("music scores", "notated melodies"),
    ("wearable sensor streams", "body-worn signals"),
    ("aerial video", "drone footage"),
    ("patent filings", "invention claims"),
    ("customer support chats", "help-desk threads"),
    ("brain recordings", "neural potentials"),
    ("ocean buoy measurements", "marine readings"),
    ("recipe collections", "cooking instructions"),
    ("facial images", "portrait pictures"),
    ("supply chain events", "logistics records"),
    ("historical newspapers", "archival print"),
    ("particle collisions", "detector events"),
    ("encyclopedia pages", "reference entries"),
    ("galaxy surveys", "sky catalogues"),
    ("industrial sensor logs", "plant telemetry"),
    ("sign language video", "manual-gesture clips"),
    ("gene expression profiles", "transcript counts"),
    ("travel itineraries", "journey plans"),
    ("court opinions", "judicial rulings"),
    ("indoor scenes", "room layouts"),
    ("animal vocalisations", "wildlife calls"),
)

PROBLEMS: tuple[tuple[str, str], ...] = (
    ("anomaly detection", "finding irregular cases"),
    ("classification", "assigning categories"),
    ("retrieval", "locating matching items"),
    ("segmentation", "delimiting regions"),
    ("summarisation", "condensing content"),
    ("forecasting", "predicting later values"),
    ("clustering", "grouping alike items"),
    ("question answering", "responding to information needs"),
    ("generation", "synthesising new samples"),
    ("denoising", "restoring clean signals"),
    ("entity linking", "resolving mentions"),
    ("ranking", "ordering candidates"),
    ("captioning", "describing content in words"),
    ("compression", "reducing storage"),
    ("causal discovery", "recovering cause and effect"),
    ("deduplication", "removing near copies"),
    ("event extraction", "identifying occurrences"),
    ("representation learning", "building general features"),
    ("alignment", "matching parallel parts"),
    ("recommendation", "proposing suitable items"),
    ("imputation", "filling missing values"),
    ("tracking", "following targets"),
    ("attribution", "explaining decisions"),
    ("simulation", "emulating dynamics"),
)

# (name in questions, sentence with the open wording, sentence with the other wording)
SETTINGS: tuple[tuple[str, str, str], ...] = (
    ("noisy labels", "We study the case of noisy labels.", "Annotations may be wrong here."),
    ("few labelled examples", "Only few labelled examples are given.", "Supervision is scarce."),
    ("distribution shift", "It faces distribution shift.", "Deployment differs from training."),
    ("class imbalance", "The data show strong class imbalance.", "Some outcomes are very rare."),
    ("adversarial attacks", "It withstands adversarial attacks.", "Hostile inputs are tolerated."),
    ("privacy constraints", "We work under privacy constraints.", "No record leaves its owner."),
    ("streaming data", "The approach handles streaming data.", "Items arrive one by one."),
    ("limited memory", "It runs with limited memory.", "It fits small devices."),
    ("missing modalities", "It copes with missing modalities.", "An input may be absent."),
    ("long contexts", "We target long contexts.", "Very large inputs are read whole."),
    (
        "uncertainty estimation",
        "We do uncertainty estimation.",
        "Each answer says how sure it is.",
    ),
    ("fairness across groups", "We ask for fairness across groups.", "No one is served worse."),
    ("multiple languages", "Results cover multiple languages.", "Many tongues are served."),
    ("low latency", "It is built for low latency.", "Replies come within milliseconds."),
    ("human feedback", "Training draws on human feedback.", "People judge what the learner does."),
    ("continual learning", "It is a continual learning setup.", "Earlier skills persist."),
    ("open vocabulary", "We work with an open vocabulary.", "Unforeseen concepts are admitted."),
    ("weak supervision", "It relies on weak supervision.", "Crude heuristics replace annotators."),
    ("interpretable models", "We ask for interpretable models.", "Decisions can be followed."),
    ("irregular sampling", "Inputs have irregular sampling.", "Gaps between readings vary."),
    ("cold start", "The cold start case is treated.", "Newcomers have no past."),
    ("energy efficiency", "Energy efficiency is the aim.", "Power draw is kept small."),
    ("hierarchical labels", "Targets are hierarchical labels.", "Categories nest in one another."),
    ("heavy occlusion", "Scenes have heavy occlusion.", "Much of the object is hidden."),
)

METHODS: tuple[tuple[str, str], ...] = (
    ("contrastive learning", "pulling matched pairs together"),
    ("diffusion models", "iterative noise removal"),
    ("graph neural networks", "message passing over nodes"),
    ("variational inference", "approximate posteriors"),
    ("knowledge distillation", "a student that imitates a teacher"),
    ("reinforcement learning", "trial and error with rewards"),
    ("self-training", "pseudo-targets of its own"),
    ("masked modelling", "recovering hidden parts"),
    ("optimal transport", "moving mass at least cost"),
    ("gaussian processes", "kernel-based function priors"),
    ("mixture of experts", "routing among specialists"),
    ("state space models", "linear recurrences"),
    ("prompt tuning", "learned input prefixes"),
    ("adversarial training", "a game of two networks"),
    ("meta-learning", "learning how to adapt"),
    ("sparse attention", "selective pairwise interaction"),
    ("low-rank adaptation", "small factorised updates"),
    ("neural ordinary differential equations", "continuous-depth dynamics"),
    ("spectral methods", "eigenvectors of affinities"),
    ("retrieval augmentation", "consulting an external store"),
    ("curriculum learning", "easy cases first"),
    ("bayesian optimisation", "surrogate-guided trials"),
    ("federated averaging", "aggregating remote updates"),
    ("energy-based models", "unnormalised densities"),
    ("decision trees", "nested threshold rules"),
    ("symbolic regression", "searching closed formulas"),
)

_SYLLABLES = (
    "ba be bo da de do fa fe fi ga go ha he hi jo ka ke ki ko la le li lo lu ma me mi mo na ne ni "
    "no pa pe pi po ra re ri ro ru sa se si so ta te ti to tu va ve vi vo xa za ze zo bran cor dal "
    "fen gar hal kel lor mar nor pol quin ros sel tal tor ul val ven wen yar"
)
SYLLABLES: tuple[str, ...] = tuple(_SYLLABLES.split())

CONCEPT_KINDS: tuple[str, ...] = (
    "decomposition", "inequality", "divergence", "kernel", "criterion", "functional", "transform",
    "expansion", "bound", "lemma", "embedding", "operator",
)  # fmt: skip

GIVEN_NAMES: tuple[str, ...] = (
    "Amara", "Bela", "Chen", "Dario", "Elin", "Farid", "Greta", "Hiro", "Ines", "Jonas", "Kavya",
    "Lars", "Mina", "Nadia", "Oskar", "Priya", "Quentin", "Rosa", "Sven", "Tomoko", "Umar", "Vera",
    "Wei", "Ximena", "Yusuf", "Zofia",
)  # fmt: skip

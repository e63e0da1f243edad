"""A few rows of every published text dataset in its authors' own files, and what must be read from them."""

import json

ENTAILMENT = [
    {"sentence1": "A man eats.", "sentence2": "He eats.", "gold_label": "entailment"},
    {"sentence1": "A man eats.", "sentence2": "He may be hungry.", "gold_label": "neutral"},
    {"sentence1": "A man eats.", "sentence2": "Nobody agrees.", "gold_label": "-"},
    {"sentence1": "A man eats.", "sentence2": "He sleeps.", "gold_label": "contradiction"},
]
ENDINGS = ["barks", "flies", "reads", "melts"]
DOGS = [{"ctx": "A dog", "endings": ENDINGS, "label": 0}, {"ctx": "A bird", "endings": ENDINGS, "label": 1}]
QUESTIONS = [
    {"question": "is it so", "title": "t", "answer": True, "passage": "It is."},
    {"question": "is it not", "title": "t", "answer": False, "passage": "It is."},
]


def lines(records):
    return "".join(json.dumps(record) + "\n" for record in records).encode()


# Files; rows as (text, second text or choices, label); how many rows have no label.
SOURCES = {
    "snli": (
        {"snli_1.0_train.jsonl": lines(ENTAILMENT)},
        [
            ("A man eats.", "He eats.", "entailment"),
            ("A man eats.", "He may be hungry.", "neutral"),
            ("A man eats.", "He sleeps.", "contradiction"),
        ],
        1,
    ),
    "mnli": (
        {"multinli_1.0_train.jsonl": lines(ENTAILMENT[:2])},
        [("A man eats.", "He eats.", "entailment"), ("A man eats.", "He may be hungry.", "neutral")],
        0,
    ),
    "qqp": (
        {
            "train.tsv": b"id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
            b"1\t1\t2\tWhy?\tHow come?\t1\n2\t3\t4\tWho?\tWhere?\t0\n"
        },
        [("Why?", "How come?", "paraphrase"), ("Who?", "Where?", "different")],
        0,
    ),
    "twitterppdb": (
        {
            "Twitter_URL_Corpus_train.txt": b'a "cat\tone cat\t(5, 6)\thttp://x\n'
            b"b\tc\t(3, 6)\thttp://y\nd\te\t(1, 6)\thttp://z\n"
        },
        [('a "cat', "one cat", "paraphrase"), ("d", "e", "different")],
        1,
    ),
    "swag": (
        {
            "train.csv": b",video-id,sent1,sent2,ending0,ending1,ending2,ending3,label\n"
            b"0,v,He stands.,He,sits.,runs.,sings.,falls.,2\n1,w,Rain.,It,stops.,goes.,is.,was.,0\n"
        },
        [
            ("He stands.", ["He sits.", "He runs.", "He sings.", "He falls."], "2"),
            ("Rain.", ["It stops.", "It goes.", "It is.", "It was."], "0"),
        ],
        0,
    ),
    "hellaswag": (
        {"hellaswag_train.jsonl": lines(DOGS)},
        [("A dog", ENDINGS, "0"), ("A bird", ENDINGS, "1")],
        0,
    ),
    "goemotions": (
        {"train.tsv": b"I love it\t18\tid1\nStop\t2\tid2\nHm\t27\tid3\nWow\t26,22\tid4\n"},
        [
            ("I love it", None, "joy"),
            ("Stop", None, "anger"),
            ("Hm", None, "neutral"),
            ("Wow", None, "surprise"),
        ],
        0,
    ),
    "meld": (
        {"train_sent_emo.csv": b"Sr No.,Utterance,Speaker,Emotion\n1,Hey!,Joey,joy\n2,No.,Ross,anger\n"},
        [("Hey!", None, "joy"), ("No.", None, "anger")],
        0,
    ),
    "yelp": (
        {"train.csv": b'"1","Bad, very ""bad"""\n"2","Good"\n'},
        [('Bad, very "bad"', None, "negative"), ("Good", None, "positive")],
        0,
    ),
    "sst2": (
        {"train.tsv": b"sentence\tlabel\na fine film\t1\ndull\t0\n"},
        [("a fine film", None, "positive"), ("dull", None, "negative")],
        0,
    ),
    "epitome": (
        {
            "emotional-reactions-reddit.csv": b"sp_id,rp_id,seeker_post,response_post,level,rationales\n"
            b"1,1,I am sad,Sorry to hear,2,x\n2,2,I fell,Get up,0,\n3,3,I lost,Oh,1,\n"
        },
        [("I am sad", "Sorry to hear", "yes"), ("I fell", "Get up", "no"), ("I lost", "Oh", "yes")],
        0,
    ),
    "newsempathy": (
        {"messages.csv": b"message_id,essay,empathy,empathy_bin\n1,So sad,6.1,1\n2,Whatever,1.0,0\n"},
        [("So sad", None, "yes"), ("Whatever", None, "no")],
        0,
    ),
    "ag_news": (
        {"train.csv": b'"3","Stocks fall","Markets fell."\n"2","A goal","They won."\n'},
        [("Stocks fall Markets fell.", None, "Business"), ("A goal They won.", None, "Sports")],
        0,
    ),
    "cola": (
        {"in_domain_train.tsv": b"gj04\t1\t\tThe cat sat.\ngj04\t0\t*\tCat the sat.\n"},
        [("The cat sat.", None, "acceptable"), ("Cat the sat.", None, "unacceptable")],
        0,
    ),
    "rte": (
        {
            "train.tsv": b"index\tsentence1\tsentence2\tlabel\n"
            b"0\tA.\tB.\tnot_entailment\n1\tC.\tD.\tentailment\n"
        },
        [("A.", "B.", "not_entailment"), ("C.", "D.", "entailment")],
        0,
    ),
    "boolq": (
        {"train.jsonl": lines(QUESTIONS)},
        [("is it so", "It is.", "yes"), ("is it not", "It is.", "no")],
        0,
    ),
    "imdb": (
        {"train/neg/0_3.txt": b"Dull.", "train/pos/1_9.txt": b"Great.", "train/unsup/0_0.txt": b"?"},
        [("Dull.", None, "negative"), ("Great.", None, "positive")],
        0,
    ),
    "mr": (
        {"rt-polarity.neg": "pass\u00e9 film\n".encode("latin-1"), "rt-polarity.pos": b"a joy\n"},
        [("pass\u00e9 film", None, "negative"), ("a joy", None, "positive")],
        0,
    ),
    "trec": (
        {"train_5500.label": b"DESC:manner How did it start ?\nENTY:cremat What films ?\n"},
        [("How did it start ?", None, "DESC"), ("What films ?", None, "ENTY")],
        0,
    ),
}

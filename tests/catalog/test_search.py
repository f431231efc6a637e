"""Ranked search: what people type finds the skill they mean, always in the same order.

A query as what it asks for.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openskills.catalog.search import Hit, QueryTerm, SearchIndex, parse_query
from openskills.catalog.skill import Skill
from openskills.catalog.vocabulary import Glossary, count_edits, default_glossary, fold, split_name, stem
from openskills.errors import InvalidArgument
from openskills.skillmd.manifest import SkillManifest

CORPUS = {
    "pdf-tools": "Merge, split, rotate and watermark PDF files. Use to combine several PDFs or take out pages.",
    "pdf-form-filler": "Fill in the fields of a PDF form from structured data and flatten the result.",
    "docx": "Create and edit Word documents with tracked changes, comments and tables of contents.",
    "xlsx": "Work with Excel spreadsheets: formulas, pivot tables, charts and formatting.",
    "pptx": "Build slide decks and PowerPoint presentations with layouts, speaker notes and pictures.",
    "csv-cleaner": "Repair broken CSV exports: encodings, separators, duplicated rows and missing values.",
    "data-visualization": "Plot charts and dashboards from tabular data with matplotlib and seaborn.",
    "sql-query-writer": "Turn questions into SQL for PostgreSQL and MySQL and explain slow query plans.",
    "database-migration": "Plan and run schema migrations without downtime; supports Alembic and Flyway.",
    "log-analyzer": "Search application logs for errors, group stack traces and find the first failure.",
    "code-review": "Review a pull request for bugs, style and missing tests. Use before merging a branch.",
    "git-commit-messages": "Write conventional commit messages from a staged diff.",
    "github-actions": "Author and debug CI workflows on GitHub, including caching and matrix builds.",
    "docker-images": "Write small, secure container images and multi-stage Dockerfiles.",
    "kubernetes-deployer": "Deploy services to a cluster with Helm, watch rollouts and roll back on failure.",
    "terraform-modules": "Describe cloud infrastructure as code with reusable Terraform modules for AWS.",
    "python-testing": "Write pytest tests with fixtures, parametrisation and property-based checks.",
    "python-packaging": "Publish a Python library: pyproject, wheels, versions and trusted publishing.",
    "javascriptLinter": "Configure ESLint and Prettier and fix what they complain about.",
    "frontend-design": "Design distinctive web interfaces with good typography, colour and layout.",
    "accessibility-audit": "Check a web page against WCAG: contrast, keyboard navigation and screen readers.",
    "web-scraper": "Extract structured data from web sites politely, with robots.txt and rate limits.",
    "api-client-generator": "Generate typed clients from an OpenAPI description.",
    "openapi-designer": "Design REST APIs: resources, errors, pagination and versioning.",
    "graphql-schema": "Model a GraphQL schema and its resolvers; avoid N+1 queries.",
    "security-scan": "Find vulnerabilities, leaked secrets and outdated dependencies in a repository.",
    "threat-modeling": "Identify attackers, assets and trust boundaries of a system before it is built.",
    "image-editor": "Crop, resize, convert and compress images in bulk: PNG, JPEG, WebP and HEIC.",
    "video-clipper": "Cut clips from long videos, add subtitles and export for social media.",
    "audio-transcriber": "Turn recordings of meetings and interviews into text with speaker labels.",
    "meeting-notes": "Summarise a meeting transcript into decisions, action items and open questions.",
    "email-drafter": "Draft polite replies to customer e-mails in the company's tone of voice.",
    "calendar_scheduler": "Find a time that suits everybody across time zones and send invitations.",
    "travel-planner": "Plan a trip: flights, hotels, sights and a day-by-day itinerary within a budget.",
    "recipe-finder": "Suggest dishes from what is in the fridge, with shopping lists and nutrition.",
    "invoice-processor": "Read supplier invoices, check totals and VAT, and export bookings to accounting.",
    "tax-helper": "Estimate income tax and collect the receipts a declaration needs.",
    "stock-screener": "Screen listed companies by valuation, growth and momentum.",
    "resume-builder": "Tailor a résumé and cover letter to a job advertisement.",
    "contract-review": "Compare a contract with our standard terms and flag risky clauses.",
    "brand-guidelines": "Apply the company's official colours, fonts and logo rules to any artifact.",
    "internal-comms": "Write status reports, newsletters and announcements in the house style.",
    "translation": "Translate documents between English, German and Japanese and keep their layout.",
    "literature-search": "Find scholarly papers, follow citations and build a bibliography.",
    "statistics-advisor": "Choose the right statistical test and interpret confidence intervals and p-values.",
    "unit-converter": "Convert lengths, weights, temperatures and currencies.",
    "weather": "Current conditions and forecasts for a place, no key needed.",
    "skill-creator": "Create a new skill or improve an existing one; writes the SKILL.md and checks it.",
    "mcp-builder": "Build Model Context Protocol servers that give agents new tools.",
    "prompt-engineering": "Improve prompts for large language models and evaluate them on examples.",
    "rag-pipeline": "Retrieval augmented generation: chunking, embeddings, vector stores and reranking.",
    "数据分析": "对表格数据进行清洗、统计和可视化，生成图表与分析报告。当用户上传Excel或CSV文件时使用。",
    "合同审查": "审查合同条款，标出风险点并给出修改建议。",
    "weekly-report-zh": "根据工作记录自动撰写周报和月报，支持导出Word文档。",
    "wechat-article": "撰写微信公众号文章，排版并生成封面图片。",
    "meeting-minutes-zh": "把会议录音转成文字，整理会议纪要和待办事项。",
    "translate-zh": "中英文互译，保留术语表和原文格式。",
    "resume-zh": "根据招聘要求优化求职简历，并准备面试问题。",
    "code-explainer-zh": "用中文解释代码的作用，适合初学者学习编程。",
    "travel-zh": "制定旅行计划，查询机票、酒店和天气。",
    "database-zh": "编写和优化数据库查询语句，分析慢查询日志。",
    "poetry-zh": "创作古诗词和对联，讲解平仄格律。",
}
KEYWORDS = {
    "weather": ("rain", "temperature outside", "天气预报"),
    "xlsx": ("workbook", "google sheets"),
    "web-scraper": ("crawler", "crawl"),
}

# (query, expected name, among the first k)
TABLE = [
    # the name itself, however it is written
    ("pdf-tools", "pdf-tools", 1),
    ("PDF tools", "pdf-tools", 1),
    ("pdf_tools", "pdf-tools", 1),
    ("pdftools", "pdf-tools", 1),
    ("ＰＤＦ－ｔｏｏｌｓ", "pdf-tools", 1),
    ("calendar scheduler", "calendar_scheduler", 1),
    ("javascript-linter", "javascriptLinter", 1),
    ("javascript", "javascriptLinter", 1),
    ("translation", "translation", 1),
    ("weather", "weather", 1),
    ("数据分析", "数据分析", 1),
    # what a person asks for
    ("merge two pdfs", "pdf-tools", 1),
    ("combine several pdf files into one", "pdf-tools", 1),
    ("fill out a pdf form", "pdf-form-filler", 1),
    ("edit a word document with tracked changes", "docx", 1),
    ("excel spreadsheet with pivot table", "xlsx", 1),
    ("make a powerpoint presentation", "pptx", 1),
    ("slides for my talk", "pptx", 1),
    ("clean up a broken csv export", "csv-cleaner", 1),
    ("plot a chart of sales data", "data-visualization", 1),
    ("why is my sql query slow", "sql-query-writer", 1),
    ("migrate the database schema", "database-migration", 1),
    ("find errors in the logs", "log-analyzer", 1),
    ("analysing stack traces", "log-analyzer", 1),
    ("review my pull request", "code-review", 1),
    ("write a commit message", "git-commit-messages", 1),
    ("debug a github workflow", "github-actions", 1),
    ("smaller container image", "docker-images", 1),
    ("rolling back a deployment on the cluster", "kubernetes-deployer", 1),
    ("infrastructure as code for aws", "terraform-modules", 1),
    ("tests in python", "python-testing", 1),
    ("publishing a python package", "python-packaging", 1),
    ("eslint configuration", "javascriptLinter", 1),
    ("designing a web interface", "frontend-design", 1),
    ("is my page usable with a keyboard and screen reader", "accessibility-audit", 1),
    ("scraping a website", "web-scraper", 1),
    ("crawler", "web-scraper", 1),
    ("api client from openapi", "api-client-generator", 1),
    ("leaked secrets in my repo", "security-scan", 1),
    ("vulnerability scanning", "security-scan", 1),
    ("resizing images", "image-editor", 1),
    ("subtitle a video", "video-clipper", 1),
    ("transcribe an interview recording", "audio-transcriber", 2),
    ("summarize the meeting", "meeting-notes", 1),
    ("reply to a customer email", "email-drafter", 1),
    ("schedule an appointment across time zones", "calendar_scheduler", 1),
    ("planning a trip with hotels", "travel-planner", 1),
    ("what can I cook, recipes please", "recipe-finder", 1),
    ("check the totals on invoices", "invoice-processor", 1),
    ("resume for a job", "resume-builder", 1),
    ("risky clauses in a contract", "contract-review", 1),
    ("company fonts and colours", "brand-guidelines", 1),
    ("translating a document to german", "translation", 1),
    ("translator", "translation", 1),
    ("papers and citations", "literature-search", 1),
    ("which statistical test", "statistics-advisor", 1),
    ("converting currencies", "unit-converter", 1),
    ("will it rain", "weather", 1),
    ("create a skill", "skill-creator", 1),
    ("vector embeddings for retrieval", "rag-pipeline", 1),
    ("google sheets", "xlsx", 1),
    # beginnings of words
    ("kube", "kubernetes-deployer", 1),
    ("terra", "terraform-modules", 1),
    ("access", "accessibility-audit", 1),
    # typing errors
    ("kuberentes", "kubernetes-deployer", 1),
    ("terrafrom modules", "terraform-modules", 1),
    ("pyhton testing", "python-testing", 1),
    ("invioce", "invoice-processor", 1),
    ("calender", "calendar_scheduler", 1),
    ("accesibility audit", "accessibility-audit", 1),
    ("wether", "weather", 1),
    ("dokcer image", "docker-images", 1),
    ("pfd merge", "pdf-tools", 1),
    ("statistcs", "statistics-advisor", 1),
    ("translaton", "translation", 1),
    ("visualizaton of data", "data-visualization", 2),
    # Chinese
    ("分析表格数据", "数据分析", 1),
    ("帮我做一个图表", "数据分析", 1),
    ("审查合同", "合同审查", 1),
    ("合同里有什么风险", "合同审查", 1),
    ("写周报", "weekly-report-zh", 1),
    ("公众号排版", "wechat-article", 1),
    ("整理会议纪要", "meeting-minutes-zh", 1),
    ("录音转文字", "meeting-minutes-zh", 1),
    ("中译英翻译术语", "translate-zh", 1),
    ("优化简历", "resume-zh", 1),
    ("解释这段代码", "code-explainer-zh", 1),
    ("旅行计划", "travel-zh", 1),
    ("查机票和酒店", "travel-zh", 1),
    ("慢查询优化", "database-zh", 1),
    ("数据库", "database-zh", 1),
    ("写一首古诗", "poetry-zh", 1),
    ("诗", "poetry-zh", 1),
    ("微信", "wechat-article", 1),
    ("天气预报", "weather", 1),
    # both at once
    ("Excel数据分析", "数据分析", 1),
    ("把周报导出成Word", "weekly-report-zh", 1),
    ("ＣＳＶ 文件", "数据分析", 2),
]


def skill(name: str, description: str = "", **fields: object) -> Skill:
    manifest = SkillManifest(name=name, description=description, **fields)  # pyright: ignore[reportArgumentType]
    return Skill(manifest=manifest, directory=f"/skills/{name}", source="test")


def corpus() -> list[Skill]:
    return [skill(name, text, keywords=KEYWORDS.get(name, ())) for name, text in CORPUS.items()]


@pytest.fixture(scope="module")
def index() -> SearchIndex:
    return SearchIndex(corpus())


def names(hits: tuple[Hit, ...]) -> list[str]:
    return [hit.skill.name for hit in hits]


@pytest.mark.parametrize(("query", "expected", "first"), TABLE)
def test_a_query_finds_the_skill_that_is_meant(index: SearchIndex, query: str, expected: str, first: int) -> None:
    assert expected in names(index.search(query, limit=first))


def test_results_do_not_depend_on_the_order_of_the_skills(index: SearchIndex) -> None:
    skills = corpus()
    random.Random(7).shuffle(skills)
    shuffled = SearchIndex(skills)
    for query, _, _ in TABLE:
        assert shuffled.search(query) == index.search(query)


def test_scores_fall_and_equal_scores_are_in_order_of_name() -> None:
    index = SearchIndex([skill(name, "boil water") for name in ("c", "a", "b")] + [skill("kettle", "boil water, boil")])
    hits = index.search("boil")
    assert names(hits) == ["kettle", "a", "b", "c"]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_exact_name_comes_before_any_number_of_better_descriptions() -> None:
    rivals = [skill(f"go-{number}", "go go go. Go code, go tests, go modules") for number in range(50)]
    assert names(SearchIndex([*rivals, skill("go", "A board game")]).search("go", limit=1)) == ["go"]


def test_of_names_that_differ_in_capitals_the_one_as_typed_is_first() -> None:
    index = SearchIndex([skill("pdf", "x"), skill("PDF", "x"), skill("Pdf", "x")])
    assert names(index.search("pdf"))[0] == "pdf"
    assert names(index.search("Pdf"))[0] == "Pdf"


def test_a_name_counts_more_than_a_keyword_and_a_keyword_more_than_a_description() -> None:
    index = SearchIndex(
        [
            skill("one", "knits socks"),
            skill("two", "makes things", keywords=("socks",)),
            skill("socks-maker", "makes things"),
        ]
    )
    assert names(index.search("socks")) == ["socks-maker", "two", "one"]


def test_when_to_use_is_searched_too() -> None:
    index = SearchIndex([skill("a", "does things", when_to_use="The user mentions zebras"), skill("b", "does things")])
    assert names(index.search("zebra")) == ["a"]


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "!?…", "—"])
def test_a_query_without_words_finds_nothing(index: SearchIndex, query: str) -> None:
    assert index.search(query) == ()


def test_a_query_that_matches_nothing_finds_nothing(index: SearchIndex) -> None:
    assert index.search("xylophone zugzwang") == ()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused_by_name(index: SearchIndex, limit: int) -> None:
    with pytest.raises(InvalidArgument, match=r"limit: .*at least 1") as caught:
        index.search("pdf", limit=limit)
    assert caught.value.field == "limit"


def test_a_limit_bounds_the_number_of_results(index: SearchIndex) -> None:
    assert len(index.search("data", limit=2)) == 2


def test_an_index_of_no_skills_finds_nothing() -> None:
    index = SearchIndex([])
    assert index.search("pdf") == ()
    assert index.find_similar_names("pdf") == ()


def test_stop_words_count_only_when_there_is_nothing_else() -> None:
    index = SearchIndex([skill("a", "how to use the thing"), skill("b", "boils eggs")])
    assert names(index.search("how to use eggs")) == ["b"]
    assert names(index.search("how to use the")) == ["a"]


def test_a_query_of_100_000_characters_is_answered_from_its_beginning(index: SearchIndex) -> None:
    assert "pdf-tools" in names(index.search("merge pdf files " + "lorem ipsum " * 10_000))
    assert "数据分析" in names(index.search("数据分析" + "甲乙丙丁" * 25_000))


def test_a_long_query_counts_only_the_first_words_that_skills_have() -> None:
    words = [f"w{number}" for number in range(60)]
    index = SearchIndex([skill("late", "zebra"), skill("early", " ".join(words))])
    assert names(index.search(" ".join([*words[:47], "zebra"]))) == ["early", "late"]
    assert names(index.search(" ".join([*words[:48], "zebra"]))) == ["early"]
    unknown = " ".join(f"u{number}" for number in range(100))
    assert names(index.search(f"{unknown} zebra")) == ["late"]


def test_talk_around_a_request_does_not_hide_it(index: SearchIndex) -> None:
    talk = "你好，周末过得怎么样？同事小李生病了，今天早上这件事突然落到我头上，我自己折腾了半天也没弄好，越弄越糟。"
    assert names(index.search(f"{talk}创作一首古诗词。太感谢了，改天请你喝咖啡。"))[0] == "poetry-zh"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("把录音转写成文字", "audio-transcriber"),
        ("爬虫抓取网站", "web-scraper"),
        ("part of the contract is a risk", "contract-review"),
        ("combine photos", "image-editor"),
        ("画一个柱状图", "data-visualization"),
        ("write a poem", "poetry-zh"),
    ],
)
def test_a_word_finds_a_skill_that_says_the_same_otherwise(index: SearchIndex, query: str, expected: str) -> None:
    assert expected in names(index.search(query, limit=3))


def test_the_word_itself_counts_more_than_one_that_means_the_same() -> None:
    index = SearchIndex([skill("a", "joins files"), skill("b", "merges files"), skill("c", "合并文件")])
    assert names(index.search("merge"))[0] == "b"
    assert names(index.search("合并"))[0] == "c"
    assert set(names(index.search("merge"))) == {"a", "b", "c"}


def test_another_glossary_takes_the_place_of_the_usual_one() -> None:
    skills = [skill("a", "joins files"), skill("b", "boils kettles")]
    assert SearchIndex(skills, Glossary(())).search("merge") == ()
    assert names(SearchIndex(skills, Glossary([["kettle", "teapot", "水壶"]])).search("水壶 teapot")) == ["b"]


def test_what_a_skill_is_not_for_does_not_find_it() -> None:
    index = SearchIndex(
        [
            skill("text", "Reads documents. Not for scanned pages; keeps columns."),
            skill("diary", "记录身体不适。不提供诊断，可以导出。"),
            skill("ocr", "Recognises letters in scanned pages"),
        ]
    )
    assert names(index.search("scanned pages")) == ["ocr"]
    assert names(index.search("诊断")) == []
    assert names(index.search("columns")) == ["text"]
    assert names(index.search("导出")) == ["diary"]


def test_a_slip_in_a_word_of_a_description_is_forgiven() -> None:
    index = SearchIndex([skill("a", "Writes a changelog for customers"), skill("b", "Watches the weather")])
    assert names(index.search("chnagelog")) == ["a"]
    assert names(index.search("wether")) == ["b"]
    assert index.search("xyzzy") == ()


def test_fit_tells_a_good_match_from_the_best_of_a_bad_lot(index: SearchIndex) -> None:
    good = ("merge two pdf files", "publish a python library with wheels", "审查合同条款的风险", "weather")
    bad = ("how are you today", "book a table for two tonight", "what is the capital of Australia", "今天心情怎么样")
    assert all(index.search(query)[0].fit > 0.5 for query in good)
    assert all(hit.fit < 0.5 for query in bad for hit in index.search(query))


def test_fit_lies_between_none_and_one_and_falls_with_the_score(index: SearchIndex) -> None:
    hits = index.search("pdf files")
    assert 1 >= hits[0].fit > hits[-1].fit > 0
    assert index.search("pdf-tools")[0].fit == 1


def test_a_single_chinese_character_is_found_anywhere_in_a_text() -> None:
    index = SearchIndex(
        [skill("end", "写诗"), skill("middle", "古诗词"), skill("alone", "ab诗cd"), skill("none", "散文")]
    )
    assert set(names(index.search("诗"))) == {"end", "middle", "alone"}


def test_a_typo_in_a_word_of_three_letters_is_only_forgiven_when_letters_are_swapped() -> None:
    index = SearchIndex([skill("pdf", "x")])
    assert names(index.search("pfd")) == ["pdf"]
    assert index.search("pdb") == ()


def one_edit_away(word: str) -> set[str]:
    gaps = range(len(word) + 1)
    letters = range(len(word))
    return (
        {word[:i] + "q" + word[i:] for i in gaps}
        | {word[:i] + word[i + 1 :] for i in letters}
        | {word[:i] + "q" + word[i + 1 :] for i in letters}
        | {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in letters[:-1]}
    )


@pytest.mark.parametrize("word", ["kubernetes", "calendar", "invoice", "video", "brand"])
def test_every_single_slip_in_a_name_word_is_forgiven(index: SearchIndex, word: str) -> None:
    (meant,) = (name for name in CORPUS if word in split_name(name))
    for typed in sorted(one_edit_away(word)):
        assert meant in names(index.search(typed, limit=2)), typed


def test_two_slips_are_forgiven_in_words_of_eight_letters_or_more() -> None:
    index = SearchIndex([skill("calendar", "x"), skill("invoice", "x")])
    twice = sorted({typed for once in one_edit_away("calendar") for typed in one_edit_away(once)})
    # A letter put between two swapped ones is three edits, not two.
    two = [typed for typed in twice if count_edits(typed, "calendar", 2) <= 2]
    assert len(two) > 0.95 * len(twice)
    assert all(names(index.search(typed)) == ["calendar"] for typed in two)
    assert index.search("inqvoqice") == ()


def test_a_known_word_is_never_taken_for_a_typo() -> None:
    index = SearchIndex([skill("form-filler", "fills"), skill("x", "moves farm animals")])
    assert names(index.search("farm")) == ["x"]


def test_numbers_are_not_corrected() -> None:
    index = SearchIndex([skill(f"task-{number}", "x") for number in range(1000, 1100)])
    assert names(index.search("1050")) == ["task-1050"]
    assert index.search("2050") == ()


def test_other_scripts_and_accents_are_found() -> None:
    index = SearchIndex(
        [
            skill("मौसम", "मौसम की जानकारी"),
            skill("погода", "прогноз погоды"),
            skill("cafe", "Trouve un café"),
            skill("날씨", "날씨를 알려줍니다"),
        ]
    )
    assert names(index.search("जानकारी")) == ["मौसम"]
    assert names(index.search("Прогноз")) == ["погода"]
    assert names(index.search("CAFÉ")) == ["cafe"]
    assert names(index.search("날씨는"))[0] == "날씨"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("pdf-tols", "pdf-tools"),
        ("pdftool", "pdf-tools"),
        ("PDF_Tools", "pdf-tools"),
        ("tools-pdf", "pdf-tools"),
        ("kubernets-deployer", "kubernetes-deployer"),
        ("githubaction", "github-actions"),
        ("web-scrapper", "web-scraper"),
        ("javascript_linter", "javascriptLinter"),
        ("数据分折", "数据分析"),
        ("review-contract", "contract-review"),
        ("wheather", "weather"),
    ],
)
def test_the_name_somebody_meant_is_first_among_the_near_ones(index: SearchIndex, typed: str, meant: str) -> None:
    assert index.find_similar_names(typed)[0] == meant


def test_near_names_are_few_and_related(index: SearchIndex) -> None:
    assert index.find_similar_names("pdf") == ("pdf-tools", "pdf-form-filler")
    assert len(index.find_similar_names("python-code-review", limit=1)) == 1
    assert index.find_similar_names("xylophone") == ()
    assert index.find_similar_names("") == ()


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_query_breaks_the_search(index: SearchIndex, query: str) -> None:
    assert len(index.search(query, limit=3)) <= 3
    assert len(index.find_similar_names(query)) <= 3


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=40)), max_size=6), st.text(max_size=20))
def test_no_skill_breaks_the_index(texts: list[tuple[str, str]], query: str) -> None:
    index = SearchIndex([skill(name, text) for name, text in texts])
    hits = index.search(query)
    assert hits == index.search(query)
    index.find_similar_names(query)


@pytest.mark.parametrize(
    "family",
    [
        ("merge", "merges", "merged", "merging"),
        ("query", "queries"),
        ("plan", "plans", "planned", "planning"),
        ("code", "codes", "coded", "coding"),
        ("box", "boxes"),
        ("match", "matches", "matching"),
        ("process", "processes", "processing", "processed"),
        ("translate", "translation", "translating", "translator", "translations"),
        ("visualise", "visualize", "visualization", "visualising"),
        ("analysis", "analyse", "analyze", "analyzing", "analyses"),
        ("extract", "extraction", "extracting"),
        ("movie", "movies"),
        ("api", "apis"),
        ("embed", "embedding", "embedded", "embeds"),
    ],
)
def test_forms_of_one_word_share_a_stem(family: tuple[str, ...]) -> None:
    assert len({stem(word) for word in family}) == 1


@pytest.mark.parametrize(
    "pair", [("string", "str"), ("note", "not"), ("news", "new"), ("speed", "spe"), ("status", "statu")]
)
def test_different_words_keep_different_stems(pair: tuple[str, str]) -> None:
    assert stem(pair[0]) != stem(pair[1])


def test_names_are_cut_at_separators_and_humps() -> None:
    assert split_name("pdf-form_filler") == ["pdf", "form", "filler"]
    assert split_name("GitHubActions") == ["git", "hub", "actions", "githubactions"]
    assert split_name("PDFTools2") == ["pdf", "tools2", "pdftools2"]


def test_folding_takes_away_width_capitals_and_accents() -> None:
    assert fold("Ｒésumé ﬁle STRASSE straße") == "resume file strasse strasse"


@pytest.mark.parametrize(
    ("one", "other", "cost"),
    [
        ("abc", "abc", 0),
        ("abc", "acb", 1),
        ("abc", "ab", 1),
        ("abc", "xabc", 1),
        ("abcd", "badc", 2),
        ("abc", "xyz", 3),
        ("", "ab", 2),
    ],
)
def test_edits_count_insertions_deletions_replacements_and_swaps(one: str, other: str, cost: int) -> None:
    assert count_edits(one, other, 2) == count_edits(other, one, 2) == cost


def nothing_known(term: str) -> bool:
    return False


def test_words_and_pairs_of_characters_are_asked_for_in_order_and_once() -> None:
    asks = parse_query("Zebra 斑马呢 zebra", nothing_known, default_glossary())
    assert asks == [QueryTerm(("zebra",)), QueryTerm(("斑马",)), QueryTerm(("马呢",))]


def test_a_word_of_the_glossary_brings_its_meaning() -> None:
    assert parse_query("photos", nothing_known, default_glossary()) == [QueryTerm(("photos",), "picture")]


def test_a_chinese_word_of_the_glossary_is_one_ask_with_all_of_its_pairs() -> None:
    asks = parse_query("把数据库弄好", nothing_known, default_glossary())
    assert asks == [
        QueryTerm(("把数",)),
        QueryTerm(("数据", "据库"), "database"),
        QueryTerm(("库弄",)),
        QueryTerm(("弄好",)),
    ]


def test_humps_are_cut_unless_the_whole_is_known() -> None:
    assert [ask.words for ask in parse_query("zebraTools", nothing_known, default_glossary())] == [
        ("zebra",),
        ("tools",),
    ]
    assert [ask.words for ask in parse_query("zebraTools", "zebratool".__eq__, default_glossary())] == [("zebratools",)]


def test_words_such_as_the_say_little() -> None:
    assert [ask.is_common for ask in parse_query("the zebra 什么", nothing_known, default_glossary())] == [
        True,
        False,
        True,
    ]


def test_a_long_query_is_read_from_its_beginning() -> None:
    assert parse_query("zebra " * 100 + " " * 1_000 + "giraffe", nothing_known, default_glossary()) == [
        QueryTerm(("zebra",))
    ]


@given(st.text(max_size=80))
def test_every_ask_has_words_and_none_comes_twice(query: str) -> None:
    asks = parse_query(query, nothing_known, default_glossary())
    assert all(ask.words and all(ask.words) for ask in asks)
    assert len(set(asks)) == len(asks)

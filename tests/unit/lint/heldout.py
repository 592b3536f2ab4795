"""A second set of planted defects, written before their author saw the rules.

(name, clean brief, text replaced, replacement, rule, piece of the line)."""

R, C, S = "robots_daily_zh.md", "compilers_batch_zh.md", "speech_note_zh.txt"
P, T, V = "privacy_daily_en.md", "training_batch_en.md", "vectors_note_en.md"

HELD_OUT: list[tuple[str, str, str, str, int, str]] = [
    # robots
    ("status counts one adjacent too many", R, "相邻 2 条。", "相邻 3 条。", 47, "相邻 3 条"),
    ("split of the main items", R, "（2 条 NET-new + 1 条 实质更新）", "（3 条 NET-new + 0 条 实质更新）", 47, "3 条 NET-new"),
    ("footer counts the sources", R, "来源 6 份（采用 5 + 未采用 1）", "来源 7 份（采用 5 + 未采用 2）", 47, "7 份"),
    ("queue names three and counts four", R, "待更新文档 3 个", "待更新文档 4 个", 47, "4 个"),
    ("id month after the brief", R, "2606.30015", "2609.30015", 51, "2609.30015"),
    ("v1 two months before its id", R, "v1 2026-07-09，未读 PDF", "v1 2026-05-02，未读 PDF", 51, "2026-05-02"),
    ("anchored and pending", R, "已锚定（§4.1），只更新数字", "尚未锚定，待补 §4.1", 49, "尚未锚定"),
    ("card memory", R, "RTX 4090（24 GB）", "RTX 4090（48 GB）", 54, "48 GB"),
    ("a source nobody checked", R, "- 来源：radar/2026-07-15-0900.md；paper_cards", "- 来源：radar/2026-07-15-1200.md；paper_cards", 50, "1200.md"),
    ("in both source lists", R, "- inbox/he/2026-07-15-0800-social.md（登录墙，正文未取得）", "- radar/2026-07-15-1600.md（无增量）", 49, "1600.md"),
    ("stored card raises credibility", R, "可信度：低到中（仅 TLDR 卡）", "可信度：高（论文卡已入库）", 57, "可信度：高"),
    (
        "abstract page called full text",
        R,
        "- 证据边界：摘要页级，未读正文；成功率为作者自报",
        "- 证据边界：正文已读；成功率为作者自报", 56, "正文已读",
    ),
    ("numbered twice", R, "### 增量 3【", "### 增量 2【", 47, "增量 2"),
    ("weekday", R, "（2026-07-15，周三）", "（2026-07-15，周五）", 51, "周五"),
    # compilers
    ("the batch has six", C, "（5 份材料，全部处理）", "（6 份材料，全部处理）", 47, "5 份材料"),
    ("heading says four", C, "一、最重要的 3 条增量", "一、最重要的 4 条增量", 47, "4 条增量"),
    (
        "id without disposition",
        C,
        "- 2608.09003 — KernelDiary（论文卡 TLDR 级）",
        "- 2608.09003 — KernelDiary（论文卡 TLDR 级）\n- 2608.07731 — 一种新的 GPU 队列", 48, "2608.07731",
    ),
    (
        "only card, twice",
        C,
        "inbox/yu/2026-08-20-1100-critical-read.md 对象一（摘要页已核",
        "paper_cards/78-2607-21940.md（摘要页已核", 47, "唯一论文卡",
    ),
    ("common gap denied", C, "自述编译时间减少 40%，生成代码性能不变", "自述编译时间从 100 秒降到 60 秒，减少 60%", 29, "60%"),
    ("confirmed twice", C, "都缺\"精度代价\"一项，属共同空洞", "互相印证了算子加速的收益，属双重确认", 52, "双重确认"),
    ("handles", C, "五、今晚两条抓手", "五、今晚三条抓手", 47, "三条抓手"),
    ("levels do not add up", C, "线索级 2 份；没有一份", "线索级 3 份；没有一份", 63, "3 份"),
    ("body checked, abstract pages", C, "没有一份读过正文", "读过正文的只有 1 份（LoopScope 摘要页）", 56, "摘要页"),
    # speech
    ("four read, five counted", S, "这周翻了四篇", "这周翻了五篇", 47, "五篇"),
    ("percentage", S, "降到 240 ms，即降低 25%", "降到 240 ms，即降低 35%", 29, "35%"),
    ("points and per cent", S, "即下降 0.8 个百分点（相对 10%）", "即下降 10 个百分点", 29, "10 个百分点"),
    ("card bandwidth", S, "约 300 GB/s", "约 900 GB/s", 54, "900 GB/s"),
    ("active parameters", S, "30B 总参、约 3B 激活（Qwen3-30B-A3B）", "30B 总参、约 8B 激活（Qwen3-30B-A3B）", 54, "8B 激活"),
    ("submitted after the note", S, "v2 2026-10-20", "v2 2026-11-20", 51, "2026-11-20"),
    ("parts of a whole", S, "中文 31 篇、英文 65 篇", "中文 31 篇、英文 75 篇", 47, "75 篇"),
    ("weekday of the note", S, "2026-10-30（周五）", "2026-10-30（周二）", 51, "周二"),
    ("two papers, one name", S, "Whisperless（2609.28771）", "EchoLite（2609.28771）", 23, "EchoLite"),
    # privacy
    ("two of three", P, "3 main increments (all NET-new)", "4 main increments (all NET-new)", 47, "4 main"),
    ("citable count", P, "## 5. Citable ids (3)", "## 5. Citable ids (5)", 47, "(5)"),
    ("reduction", P, "42 GB (30 % less)", "42 GB (45 % less)", 29, "45 %"),
    ("card of eighty", P, "one H100 (80 GB)", "one H100 (40 GB)", 54, "40 GB"),
    (
        "open and not open",
        P,
        "- Credibility: medium\n- Key points: attack",
        "- Credibility: high (code released)\n- Key points: attack", 49, "code released",
    ),
    ("full text read", P, "- Evidence boundary: abstract page (v2 2026-03-03) checked, PDF not read",
     "- Evidence boundary: full text read (abstract page v2 2026-03-03)", 56, "full text read"),
    ("double confirmation", P, "cannot confirm each other: one reports", "confirm each other: one reports", 52, "confirm each other"),
    ("window", P, "2026-03-10 19:45 → 2026-03-11 19:45 (24 h)", "2026-03-11 19:45 → 2026-03-10 19:45 (24 h)", 2, "window"),
    ("age of the carried", P, "(first seen 2026-03-08, pending, 3 days)", "(first seen 2026-03-08, pending, 9 days)", 51, "9 days"),
    ("undefined abbreviation", P, "on Llama-3.1-8B, against", "with a QRTL of 0.4 on Llama-3.1-8B, against", 55, "QRTL"),
    ("unlisted source in the table", P, "| inbox/rafi/2026-03-11-0900-note.md | adj", "| inbox/zoe/2026-03-11-0800-note.md | adj", 50, "zoe"),
    ("summary disagrees", P, "| 2 | QuietGrad | method | ★★ | NET-new |", "| 2 | QuietGrad | method | ★★ | anchored |", 49, "QuietGrad"),
    # training
    ("files of the batch", T, "inbox/kit 1 file + cards 1 file", "inbox/kit 2 files + cards 1 file", 47, "4 files"),
    ("card of the H200", T, "64 H200 (141 GB each)", "64 H200 (80 GB each)", 54, "80 GB"),
    ("restarts", T, "3 of 11 restarts were storage faults, 8 were network", "3 of 11 restarts were storage faults, 9 were network", 47, "9 were"),
    ("active of the mixture", T, "(671B total, 37B active)", "(671B total, 17B active)", 54, "17B"),
    ("heading in words", T, "## A. The two most important", "## A. The three most important", 47, "three most"),
    (
        "id nobody disposed of",
        T,
        "(abstract page)\n\nRegister",
        "(abstract page)\n- 2609.03311: PipeLoom (feed abstract)\n\nRegister", 48, "2609.03311",
    ),
    ("id months away", T, "v1 2026-08-24", "v1 2026-03-24", 51, "2026-03-24"),
    ("two version lines", T, "Megatron is named without a version. → no comparison until it is named.",
     "vLLM v1.3.0 is the stable line and vLLM v0.30.1 the latest.", 59, "v1.3.0"),
    # vectors
    ("three papers counted as four", V, "Three things I do not believe", "Four things I do not believe", 47, "Four things"),
    ("reduction of the index", V, "from 48 GB to 12 GB, a 75 % reduction", "from 48 GB to 12 GB, a 25 % reduction", 29, "25 %"),
    ("bandwidth of the A100", V, "(about 2.0 TB/s)", "(about 3.4 TB/s)", 54, "3.4 TB/s"),
    ("weekday of the plan", V, "Monday, 29 June 2026", "Tuesday, 29 June 2026", 51, "Tuesday"),
    ("malformed month", V, "(2606.03377)", "(2613.03377)", 13, "2613.03377"),
    ("three origins", V, "that is one origin, not three", "so three independent sources confirm it", 18, "three independent"),
]

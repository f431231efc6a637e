"""Search terms: normalization, English stems, Chinese character pairs, typo-tolerant lookup, and a glossary.

The glossary has synonyms of everyday work in English and Chinese. It has only words with a single meaning in requests
to skills ("order" and "class" have too many), because a vague group turns a miss into a wrong hit.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import combinations, islice
from operator import add
from unicodedata import normalize

_STOP_WORDS = """
a about after again all almost already also always am an and another any anybody anyone anything are around as at away
back be because been before being between both but by came can come comes could d did didn do does doesn don done down
during each either else enough even ever every everybody everyone everything few first for from gave get give given
gives go goes going gone good got great had has have he help her here hers him his how however i if in into is isn it
its just keep kept know last least less let lets like little ll look lot m made make makes making many may maybe me
might mine more most much must my myself need never new next no nobody not nothing now of off often ok okay old on one
ones only or other others our out over own per perhaps please put quite rather re really right s said same say says see
seem seems shall she should show since so some somebody someone something sometimes still such sure t take taken takes
taking tell than thank thanks that the their them then there these they thing things think this those though three
through to together told too took toward try trying two under until up upon us use used uses using ve very want wants
was way ways we well went were what whatever when where whether which while who whole whose why will with within
without won would yes yet you your
一下 一个 一些 一份 一张 一样 一段 一点 一篇 上面 下面 不了 不会 不是 不能 不要 东西 为什 么样 之前 之后 什么
他们 以前 以及 以后 但是 你们 使用 关于 出来 只是 可以 可能 各种 哪些 哪里 因为 多少 大家 如何 如果 对于 就是
已经 帮忙 帮我 应该 怎么 怎样 我们 我想 我要 或者 所以 时候 是不 是否 有没 有点 根据 没有 然后 现在 用于 的话
知道 给出 给我 自己 觉得 请问 起来 还是 还有 这个 这么 这些 这份 这台 这样 这段 这篇 进行 通过 那个 那么 那些
那样 里面 需要
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that say little about what is searched for."""

# Scripts written without spaces between words (and Korean, which glues particles to words): searched as pairs.
_DENSE = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0eff\u1000-\u1049\u1780-\u17d3\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_DENSE}]+")
_ASCII_WORD = re.compile("[a-z0-9]+")
# Vowel signs of Indic and Semitic scripts belong to the word although `\w` does not match them.
_WORD = re.compile("(?:[^\\W_]|[\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff])+")
_ACCENT = re.compile("[\u0300-\u036f]+")
_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOWEL = re.compile("[aeiouy]")
_SHORT_WITH_E = re.compile("[^aeiou][aeiouy][^aeiouwxy]")
_ENDINGS = ("ation", "ating", "ated", "ator", "ate", "ing", "ed")
_NO_PLURALS = frozenset({"news", "series", "species"})
# To the end of the clause: "Not for scanned pages; use pdf-ocr." must not be found by "scanned".
_DENIAL = re.compile(
    r"\b(?:not (?:(?:intended|meant|suitable) )?for|(?:do not|don't|never) use(?: (?:it|this))?)\b[^.;!?。；！？\n]*"
    r"|(?:不适用于|不适合|不要用于|不用于|不能用于|请勿用于|不提供|不支持|不负责)[^.;!?,。；！？，\n]*",
    re.IGNORECASE,
)


def fold(text: str) -> str:
    """Normalize text: no full-width forms, capitals or accents."""
    if text.isascii():
        return text.lower()
    return normalize("NFKC", _ACCENT.sub("", normalize("NFKD", text)).casefold())


def remove_denials(text: str) -> str:
    """A description without the clauses about what the skill is not for."""
    return _DENIAL.sub(" ", text)


def split_humps(text: str) -> str:
    """Split camel case: `pdfTools` becomes `pdf Tools`, `PDFTools` becomes `PDF Tools`."""
    return _HUMP.sub(" ", text if text.isascii() else normalize("NFKC", text))


def split_text(folded: str) -> tuple[list[str], list[str]]:
    """The words of a folded text, and its runs of characters of scripts without spaces between words."""
    if folded.isascii():
        return _ASCII_WORD.findall(folded), []
    return _WORD.findall(_RUN.sub(" ", folded)), _RUN.findall(folded)


def split_pairs(run: str) -> list[str]:
    """Every character of a run with the next one, and the last character alone.

    So each character starts exactly one pair, and a single character is found by the pairs that it starts.
    """
    return [*map(add, run, run[1:]), run[-1]]


def split_name(name: str) -> list[str]:
    """The distinct words of a name, split at `-`, `_`, spaces and camel case, and also without the last."""
    words, runs = split_text(fold(split_humps(name)))
    whole = split_text(fold(name))[0]
    return list(dict.fromkeys([*words, *whole, *(pair for run in runs for pair in split_pairs(run))]))


def squeeze(name: str) -> str:
    """A name without separators and capitals: `PDF tools`, `pdf_tools` and `pdfTools` become `pdftools`."""
    folded = fold(name)
    return "".join(
        _ASCII_WORD.findall(folded) if folded.isascii() else re.findall(f"{_WORD.pattern}|[{_DENSE}]+", folded)
    )


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """Stem an English word: no plural, -ing, -ed, -ate, -ation; `-ise` becomes `-ize`. Other words are unchanged."""
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    if word.endswith("ysis"):
        return word[:-4] + "yz"
    word = _strip_ending(_singularize(word))
    if len(word) > 4 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "z" if len(word) > 5 and word.endswith(("is", "ys")) else word


def _singularize(word: str) -> str:
    if word in _NO_PLURALS:
        return word
    if word.endswith(("ies", "ie")) and len(word) > 4:
        return word.removesuffix("s")[:-2] + "y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "sis")) else word


def _strip_ending(word: str) -> str:
    if word.endswith(("ction", "ption", "ssion")):
        return word[:-3]
    ending = next((ending for ending in _ENDINGS if word.endswith(ending)), "")
    rest = word.removesuffix(ending)
    if not ending or len(rest) < 3 or word.endswith(("eed", "embed")) or not _VOWEL.search(rest):
        return word
    if ending not in ("ing", "ed"):
        return rest
    if rest[-1] == rest[-2] and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if len(rest) == 3 and _SHORT_WITH_E.fullmatch(rest) else rest


class Vocabulary:
    """A fixed set of words with lookup by prefix, and by spelling with up to `max_edits` edits."""

    # The length of the prefix that selects candidates, and how many of them are compared at most.
    _STUB = 6
    _CANDIDATES = 128

    def __init__(self, words: Iterable[str], max_edits: int = 2) -> None:
        self._max_edits = max_edits
        self._sorted = sorted(set(words))
        # A single word is stored without a tuple, to save memory: nearly all stubs have only one.
        self._stubs: dict[str, str | tuple[str, ...]] = {}
        for word in self._sorted:
            for stub in _build_stubs(word[: self._STUB], self._edit_tolerance(word)):
                known = self._stubs.get(stub)
                if known is None:
                    self._stubs[stub] = word
                elif isinstance(known, str):
                    self._stubs[stub] = (known, word)
                elif len(known) < self._CANDIDATES:
                    self._stubs[stub] = (*known, word)

    def find_by_prefix(self, prefix: str, limit: int) -> list[str]:
        """Words that start with `prefix`, sorted, at most `limit`."""
        start = bisect_left(self._sorted, prefix)
        return [word for word in self._sorted[start : start + limit] if word.startswith(prefix)]

    def find_nearest(self, word: str) -> list[tuple[int, str]]:
        """The known words with the fewest edits to `word`, within the tolerance of each, with their costs."""
        if not edit_tolerance(word):
            return []
        found: list[tuple[int, str]] = []
        for other in self._find_candidates(word):
            tolerance = self._edit_tolerance(other)
            # With three letters nearly every word is one edit from another; only swapped letters are surely a typo.
            if len(other) > 3 or sorted(word) == sorted(other):
                cost = count_edits(word, other, tolerance)
                if cost <= tolerance:
                    found.append((cost, other))
        best = min(found, default=(0, ""))[0]
        return [(cost, other) for cost, other in found if cost == best]

    def _find_candidates(self, word: str) -> list[str]:
        found: dict[str, None] = {}
        for stub in sorted(_build_stubs(word[: self._STUB], self._max_edits)):
            known = self._stubs.get(stub, ())
            found.update(dict.fromkeys((known,) if isinstance(known, str) else known))
            if len(found) >= self._CANDIDATES:
                break
        return sorted(islice(found, self._CANDIDATES))

    def _edit_tolerance(self, word: str) -> int:
        return min(self._max_edits, edit_tolerance(word))


def edit_tolerance(word: str) -> int:
    """How many edits are tolerated: one, two from 8 letters on, none for numbers and character pairs."""
    if not 3 <= len(word) <= 64 or not word.isalpha() or _RUN.match(word):
        return 0
    return 2 if len(word) >= 8 else 1


def count_edits(one: str, other: str, limit: int) -> int:
    """Edit distance with swaps of neighbours (Damerau-Levenshtein); `limit + 1` if it is more than `limit`."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    one, other = one[start:], other[start:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one):
        older, before, row = before, row, [i + 1]
        for j, wanted in enumerate(other):
            cost = min(before[j] + (letter != wanted), before[j + 1] + 1, row[j] + 1)
            if i and j and letter == other[j - 1] and one[i - 1] == wanted:
                cost = min(cost, older[j - 1] + 1)
            row.append(cost)
        if min(row) > limit and min(before) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def _build_stubs(word: str, depth: int) -> set[str]:
    """The word without up to `depth` of its letters, in all ways; nothing if `depth` is 0."""
    found = {word} if depth else set[str]()
    for count in range(1, depth + 1):
        found.update("".join(left) for left in combinations(word, max(len(word) - count, 0)))
    return found


_GROUPS = """
file 文件 / document 文档 文稿 / folder directory 文件夹 目录 / text 文本 文字 / page 页面 网页 /
website site webpage 网站 站点 / table 表格 / spreadsheet excel xlsx workbook 电子表格 工作簿 /
slide deck powerpoint pptx presentation ppt 幻灯片 演示文稿 / picture image photo photograph 图片 照片 图像 相片 /
screenshot 截图 截屏 / icon logo 图标 标志 / background 背景 / caption subtitle 字幕 /
video film footage movie 视频 影片 录像 / audio sound 音频 声音 / recording 录音 / voice 语音 嗓音 /
music song 音乐 歌曲 / gif 动图 / chart plot graph diagram 图表 画图 绘图 折线图 柱状图 散点图 曲线图 /
form 表单 申请表 / font typography 字体 / colour color 颜色 配色 / layout 布局 版式 排版 / format 格式 /
template 模板 / archive zip 压缩包 解压 / backup 备份 / restore recover 恢复 还原 / disk 磁盘 硬盘 / memory ram 内存 /
network 网络 / server 服务器 / cloud 云端 / cluster 集群 / container docker 容器 /
deploy deployment rollout 部署 上线 / rollback 回滚 / monitor monitoring 监控 / alert alarm 告警 报警 / log 日志 /
error failure exception 错误 报错 异常 / crash 崩溃 / outage incident 故障 事故 / bug defect 缺陷 /
vulnerability 漏洞 / security secure 安全 / password 密码 / secret credential 密钥 凭证 / attack attacker 攻击 /
privacy 隐私 / permission 权限 / code 代码 源码 源代码 / function 函数 / variable 变量 / program 程序 / script 脚本 /
library package dependency 依赖 / api interface endpoint 接口 / schema 结构 / database db 数据库 / query 查询 /
sql 语句 / index 索引 / migration migrate 迁移 / test 测试 / review 审查 评审 审核 / refactor restructure 重构 /
debug 调试 排查 / performance speed 性能 速度 / commit 提交 / branch 分支 / repository repo 仓库 /
merge join combine 合并 拼接 / conflict 冲突 / release version 版本 发布 / changelog 更新日志 / issue 问题单 /
ticket 工单 / workflow pipeline 流水线 工作流 / build 构建 / install 安装 /
configure configuration config setting 配置 设置 / browser 浏览器 /
crawl crawler scrape scraper spider 爬取 爬虫 抓取 / link url 链接 网址 / seo 搜索引擎 排名 / component 组件 /
frontend 前端 / backend 后端 / app application 应用 软件 / mobile phone 手机 移动端 / user 用户 / customer 客户 顾客 /
data 数据 / dataset 数据集 / model 模型 / train training 训练 / classify classifier classification 分类 /
label annotate annotation 标注 / predict prediction forecast 预测 预报 / statistics statistical 统计 /
average mean 平均 均值 / experiment trial 实验 试验 / sample 样本 抽样 / analyse analysis 分析 /
visualise visualize 可视化 / compare comparison 比较 对比 / report 报告 /
summary summarise digest overview 摘要 总结 概括 概述 / translate translation 翻译 互译 / language 语言 /
chinese 中文 / english 英文 英语 / grammar 语法 / spelling typo misspelling 拼写 错别字 / proofread polish 校对 润色 /
write draft compose 撰写 编写 起草 写作 / edit revise 编辑 修改 / read 阅读 读取 / explain 解释 讲解 说明 /
describe description 描述 / extract 提取 抽取 / convert transform 转换 转成 转为 / resize scale 缩放 / compress 压缩 /
crop 裁剪 / trim cut clip 剪辑 截取 剪切 / split 拆分 分割 / rename 重命名 改名 / delete remove 删除 去除 去掉 移除 /
duplicate dedupe 重复 去重 / clean cleanup 清洗 清理 / repair fix mend 修复 修正 改正 /
check verify validate 检查 核对 校验 / find search 查找 搜索 检索 / sort 排序 / count 计数 /
generate create 生成 创建 / fill 填写 填充 填入 / sign signature 签名 签字 / send 发送 / receive 接收 /
download 下载 / upload 上传 / import 导入 / export 导出 / print 打印 / scan scanned 扫描 扫描件 /
recognise recognize ocr 识别 / transcribe transcription transcript 转写 听写 文字稿 / email mail 邮件 邮箱 /
inbox 收件箱 / reply respond response 回复 答复 / answer 回答 答案 / letter 信件 来信 / message 消息 /
invitation invite 邀请 请柬 / newsletter 通讯 / meeting 会议 开会 / minutes 纪要 / agenda 议程 /
calendar schedule 日程 日历 / appointment 预约 / deadline 截止 / task todo 任务 待办 / plan 计划 规划 / project 项目 /
team 团队 / budget 预算 / spending expense expenditure 支出 开支 花费 / cost price 价格 费用 成本 /
cheap bargain discount 降价 打折 便宜 / invoice bill 发票 账单 / receipt 收据 小票 / reimburse reimbursement 报销 /
tax 个税 所得税 纳税 / accounting bookkeeping 会计 记账 财务 / payment pay 支付 付款 / bank 银行 /
contract agreement 合同 协议 合约 / lease rent tenancy 租赁 租约 租房 / clause 条款 /
confidential nondisclosure nda 保密 / legal law 法律 / licence license 许可 许可证 授权 / risk 风险 / policy 政策 /
resume cv 简历 履历 / job vacancy career 职位 岗位 求职 / hire recruit recruiter recruitment 招聘 招人 /
interview 面试 / appraisal assessment 考核 绩效 / salary wage 工资 薪资 薪水 / employee staff 员工 /
manager boss 领导 经理 / weekly 周报 / announcement notice 通知 公告 / article post blog 文章 推文 博客 /
title headline 标题 / story 故事 / poem poetry 诗歌 诗词 / speech 演讲 致辞 / school 学校 / teacher teach 教师 老师 /
student pupil 学生 / lesson 课堂 教学 课程 教案 / homework 作业 / essay composition 作文 /
exam quiz 考试 测验 试卷 / question 问题 提问 / vocabulary 单词 词汇 / flashcard 卡片 闪卡 /
memorise memorize 背诵 记忆 / grade score 打分 评分 / paper 论文 / literature 文献 /
citation reference bibliography 引用 参考文献 / manuscript 稿件 手稿 / journal 期刊 / research 研究 /
equation formula 公式 方程 / trip travel journey itinerary 旅行 旅游 行程 / hotel accommodation lodging 酒店 住宿 /
flight airline 航班 机票 / railway rail 火车 高铁 列车 / visa 签证 / luggage baggage suitcase 行李 箱子 /
sight sightseeing attraction 景点 / map 地图 / weather 天气 / recipe dish cook cooking 菜谱 食谱 做菜 烹饪 /
ingredient 食材 / meal diet 饮食 餐饮 / calorie 热量 卡路里 / fitness workout gym 健身 锻炼 / doctor physician 医生 /
symptom 症状 / medicine 药品 / health 健康 / product goods 商品 产品 / shop 商店 店铺 网店 / stock inventory 库存 /
purchase buy 采购 购买 / sale sell sales 销售 销量 / marketing advertising advertisement advert 营销 广告 /
complaint 投诉 / survey questionnaire 问卷 调查 / feedback 反馈 / support 客服 / satisfaction 满意度 / faq 常见问题 /
demand 需求 / subscriber subscription 订阅 / certificate 证书 / address 地址 / name 姓名 / date 日期 / rule 规则 /
list 清单 列表 / step 步骤 / accessible accessibility 无障碍 / prompt 提示词 / embedding vector 向量 /
chatbot assistant 机器人 助手 / knowledge 知识
"""


class Glossary:
    """Groups of synonyms; the first word of a group is its meaning."""

    def __init__(self, groups: Iterable[Sequence[str]]) -> None:
        self._by_word = {stem(word): words[0] for words in groups for word in words}
        self._longest = max((len(word) for word in self._by_word if not word.isascii()), default=0)

    def find_meaning(self, term: str) -> str | None:
        """The meaning of a stem or a Chinese word, or None."""
        return self._by_word.get(term)

    def find_meanings(self, run: str) -> Iterator[tuple[int, int, str]]:
        """The glossary words in a run of Chinese characters, as start, end and meaning.

        The longest word counts: `数据库` is a database, not data.
        """
        at = 0
        while at < len(run):
            longest = min(self._longest, len(run) - at)
            length = next((length for length in range(longest, 1, -1) if run[at : at + length] in self._by_word), 0)
            if length:
                yield at, at + length, self._by_word[run[at : at + length]]
            at += length or 1


def default_groups() -> list[list[str]]:
    """The synonym groups of the built-in glossary."""
    groups: list[str] = [*_GROUPS.split(" /")]
    return [words.split() for words in groups]


@cache
def default_glossary() -> Glossary:
    """The built-in glossary."""
    return Glossary(default_groups())

"""Requests with slips of the fingers and with talk around them, made from those that were written by hand.

`selection_variations.py` renews `selection/varied.jsonl`; with `--print` it only shows what would be there. The same
seed and version always give the same bytes.
"""

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from selection_data import HALVES, HERE, SEED, VERSION, Request, read_rows, read_skills, with_halves

_EACH = 34
"""How many of each kind in each language."""

_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SOUND_ALIKE = """
视频食品 图片图篇 简历简力 会议会意 合同合通 文件文见 数据数剧 翻译翻意 发票法票 备份备分 周报周保 录音录因
代码代马 测试侧试 接口借口 网站网占 部署布署 日志日至 报销报消 商品伤品 直播值播 库存库村 投诉头诉 客服克服
问卷问券 论文轮文 文献文现 教案教按 作文做文 健身建身 行李行礼 菜谱菜普 高铁高贴 行程形成 面试面是 绩效积效
演讲眼讲 标题标体 纪要记要 邮件油件 截图节图 压缩压索 优化有化 迁移千一 预测预侧 字幕字母 工单公单 审查申查
背景北京 依赖依懒 漏洞楼洞 隐私引私 解压姐压 签证前证 议程议成 摘要宅要
"""
_SLIPS = {pair[:2]: pair[2:] for pair in _SOUND_ALIKE.split()}

_TALK: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "en": (
        (
            "Hi again, I hope you had a nice weekend.",
            "Sorry to bother you so late, it has been one of those days.",
            "So my colleague Anna is ill and I inherited this from her this morning.",
            "I am on the train right now and the connection is bad, so please be patient with me.",
            "We spoke about this last week, maybe you remember, I was the one with the red bicycle.",
            "To give you a bit of background: we are a small company with eleven people near Leeds.",
            "My first attempt went nowhere, to be honest, and the second one made things worse.",
        ),
        (
            "No hurry, some time before lunch would be lovely.",
            "If anything is unclear just ask, I am around until six.",
            "My boss is already nervous, so keep your fingers crossed for me.",
            "Thanks a million, I owe you a coffee.",
            "By the way, the new canteen is much better than the old one.",
            "It does not have to be perfect, good enough is fine for now.",
        ),
    ),
    "zh": (
        (
            "你好，周末过得怎么样？",
            "不好意思这么晚打扰你，今天实在太忙了。",
            "同事小李生病了，今天早上这件事突然落到我头上。",
            "我现在在地铁上，信号不太好，你慢慢来。",
            "上周我们聊过一次，不知道你还记不记得。",
            "先说一下背景，我们公司不大，一共十来个人。",
            "我自己折腾了半天也没弄好，越弄越糟。",
        ),
        (
            "不着急，中午之前给我就行。",
            "有不清楚的地方随时问我，我六点才下班。",
            "老板已经有点急了，拜托拜托。",
            "太感谢了，改天请你喝咖啡。",
            "对了，楼下新开的食堂比以前好吃多了。",
            "不用做得太完美，差不多就行。",
        ),
    ),
}


def varied(written: Sequence[Request]) -> list[dict[str, Any]]:
    """The variations of requests that are answered by a skill and say so in its words."""
    dice = random.Random(f"{SEED}:{VERSION}")
    plain = [request for request in written if request.kind in ("direct", "near")]
    makers: dict[str, Callable[[Request, random.Random], str]] = {"typo": _misspelt, "noise": _with_talk}
    return [
        {"kind": kind, "skill": request.skill, "text": make(request, dice), "of": request.text}
        for kind, make in makers.items()
        for language in ("en", "zh")
        for request in dice.sample([one for one in plain if one.language == language and _able(one, kind)], _EACH)
    ]


def as_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """The bytes of the file."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _able(request: Request, kind: str) -> bool:
    """Whether there is anything to misspell, if that is what is asked."""
    if kind != "typo":
        return True
    return any(word in request.text for word in _SLIPS) if request.language == "zh" else bool(_long(request.text))


def _long(text: str) -> list[int]:
    return [number for number, word in enumerate(text.split(" ")) if len(word) > 4 and word.isalpha()]


def _misspelt(request: Request, dice: random.Random) -> str:
    if request.language == "zh":
        word = dice.choice([word for word in _SLIPS if word in request.text])
        return request.text.replace(word, _SLIPS[word], 1)
    words = request.text.split(" ")
    long = _long(request.text)
    for number in dice.sample(long, min(2, len(long))):
        words[number] = _slip(words[number], dice)
    return " ".join(words)


def _slip(word: str, dice: random.Random) -> str:
    """A letter swapped with the next, left out, doubled or hit beside; the first is nearly always right."""
    at = dice.randrange(1, len(word) - 1)
    match dice.randrange(4):
        case 0 if word[at] != word[at + 1]:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        case 1:
            return word[:at] + word[at + 1 :]
        case 2:
            return word[: at + 1] + word[at:]
        case _:
            return word[:at] + _beside(word[at], dice) + word[at + 1 :]


def _beside(letter: str, dice: random.Random) -> str:
    row = next((row for row in _KEYS if letter in row), letter)
    at = row.index(letter)
    return dice.choice(row[max(at - 1, 0) : at] + row[at + 1 : at + 2] or letter)


def _with_talk(request: Request, dice: random.Random) -> str:
    # The halves share no sentence: what is learnt from the talk of one does not help with the other.
    before, after = (sentences[HALVES.index(request.half) :: 2] for sentences in _TALK[request.language])
    gap, end = ("", "。") if request.language == "zh" else (" ", ".")
    pieces = [*dice.sample(before, dice.randint(1, 2)), f"{request.text}{end}", *dice.sample(after, dice.randint(1, 2))]
    return gap.join(pieces)


def main() -> None:
    """Renew the file, or show it."""
    families = {skill.name: skill.family for skill in read_skills()}
    lines = as_lines(varied(with_halves(read_rows(HERE / "written.jsonl"), families)))
    if sys.argv[1:] == ["--print"]:
        sys.stdout.buffer.write(lines.encode())
    else:
        (HERE / "varied.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()

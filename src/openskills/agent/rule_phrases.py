"""What the rules say, in English and in Chinese. Values are put in by `str.format`."""

from collections.abc import Mapping
from dataclasses import dataclass

from openskills.agent.rule_routing import Reason


@dataclass(frozen=True, slots=True)
class Phrases:
    """Every sentence in one language."""

    ran: str
    tried: str
    where: str
    not_isolated: str
    printed: str
    wrote: str
    more_lines: str
    nothing_printed: str
    kept: str
    files: str
    exit_code: str
    timed_out: str
    refused: str
    again: str
    undone: str
    not_loaded: str
    needs: Mapping[str, str]
    needs_other: str
    assumed: str
    ask_again: str
    no_runner: str
    no_command: str
    says: str
    no_load: str
    interrupted: str
    nothing_fits: str
    unknown: str
    nearest: str
    there_are: str
    others: str
    name_one: str
    no_skills: str
    no_request: str
    chosen: Mapping[Reason, str]
    signed: str
    unread: str
    unsigned: str


ENGLISH = Phrases(
    ran="I ran this command of the skill {skill}{where}: `{command}`",
    tried="I wanted to run this command of the skill {skill}: `{command}`",
    where=" ({isolation}, {milliseconds} ms)",
    not_isolated="not isolated",
    printed="It printed:",
    wrote="It wrote {name}:",
    more_lines="({count} more lines)",
    nothing_printed="It ended without an error and printed nothing.",
    kept="Kept: {refs}",
    files="Files: {refs}",
    exit_code="It ended with exit code {code}, not 0.",
    timed_out="It took too long and was stopped.",
    refused="It was not run: {why}",
    again="That is what the skill's script says. If it names a fault, correct the file or the request, and ask again.",
    undone="Not done yet, because a turn has two runs at most: {files}. Ask again for them.",
    not_loaded="The skill {skill} could not be loaded: {why}",
    needs={
        "file": "The skill {skill} works on a file, and there is none. Attach one and ask again.",
        "formula": "The skill {skill} needs something to compute, such as `2 * (3 + 4)`. Write it and ask again.",
        "numbers": "The skill {skill} works on numbers, and there are none in the request. Write them and ask again.",
    },
    needs_other="A rule cannot know what to put for {what} in `{command}` of the skill {skill}.",
    assumed="Taken from the example in the skill's text, not from the request: {values}",
    ask_again="Run it yourself, or use a language model.",
    no_runner="No command can be run here, so nothing was done. This is how the skill {skill} begins:",
    no_command="The skill {skill} instructs a language model and has no command that a rule could run. It begins:",
    says="This is what the skill {skill} answered:",
    no_load="The skill {skill} fits, but skills cannot be loaded here, so nothing was done.",
    interrupted="There is no result of the last step, so I do not know what it did. Ask again to repeat it.",
    nothing_fits="No skill here clearly fits this request, so nothing was done.",
    unknown="There is no skill named {name}, so nothing was done.",
    nearest="The nearest skills:",
    there_are="The skills here:",
    others="{count} more",
    name_one="Write `${name}` before a request to choose one yourself.",
    no_skills="There are no skills here, so nothing can be done.",
    no_request="There is no request. Say what is to be done.",
    chosen={
        Reason.NAMED: "the request names it",
        Reason.RULE: "the request has a word that stands for skills like it ({detail})",
        Reason.SEARCH: "of all skills it shares the most with the words of the request",
        Reason.LOADED: "it was loaded already",
    },
    signed="A rule chose {skill}, not a language model: {why}.",
    unread=" Nobody has read the result.",
    unsigned="This is an answer of rules, not of a language model.",
)

CHINESE = Phrases(
    ran="我运行了技能 {skill} 的命令{where}：`{command}`",
    tried="我想运行技能 {skill} 的命令：`{command}`",
    where="（{isolation}，{milliseconds} 毫秒）",
    not_isolated="没有隔离",
    printed="它的输出：",
    wrote="它写出了 {name}：",
    more_lines="（还有 {count} 行）",
    nothing_printed="命令正常结束，没有输出。",
    kept="已保存：{refs}",
    files="文件：{refs}",
    exit_code="命令结束，退出码是 {code}，不是 0。",
    timed_out="命令超时，已被终止。",
    refused="命令没有运行：{why}",
    again="以上是技能脚本自己的话。如果指出了错误，请修正文件或请求后再试一次。",
    undone="每一轮最多运行两次，因此还没有处理：{files}。请再发一次请求。",
    not_loaded="技能 {skill} 无法加载：{why}",
    needs={
        "file": "技能 {skill} 需要一个文件，但这次没有。请附上文件后再试一次。",
        "formula": "技能 {skill} 需要一个算式，例如 `2 * (3 + 4)`。请写出来后再试一次。",
        "numbers": "技能 {skill} 需要数字，但请求里没有。请写出数字后再试一次。",
    },
    needs_other="规则不知道该在技能 {skill} 的 `{command}` 里为 {what} 填什么。",
    assumed="以下取自技能说明里的例子，而不是请求：{values}",
    ask_again="请自己运行它，或者使用语言模型。",
    no_runner="这里不能运行命令，所以什么都没有做。技能 {skill} 的说明开头是：",
    no_command="技能 {skill} 是写给语言模型的说明，没有规则可以运行的命令。它的开头是：",
    says="技能 {skill} 的回答：",
    no_load="技能 {skill} 合适，但这里不能加载技能，所以什么都没有做。",
    interrupted="上一步没有结果，因此不知道它做了什么。请再发一次请求来重做。",
    nothing_fits="这里没有明显适合这个请求的技能，所以什么都没有做。",
    unknown="没有名为 {name} 的技能，所以什么都没有做。",
    nearest="最接近的技能：",
    there_are="这里的技能：",
    others="另外 {count} 个",
    name_one="在请求前写上 `${name}` 就可以自己指定技能。",
    no_skills="这里没有任何技能，无法完成请求。",
    no_request="没有请求。请说明要做什么。",
    chosen={
        Reason.NAMED: "请求里写了它的名字",
        Reason.RULE: "请求里有代表这类技能的词（{detail}）",
        Reason.SEARCH: "在所有技能中，它与请求的用词最接近",
        Reason.LOADED: "它已经加载",
    },
    signed="{skill} 由规则选定，不是语言模型：{why}。",
    unread="结果没有人读过。",
    unsigned="这是规则的回答，不是语言模型的回答。",
)

"""What the demo says, in English and in Chinese."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of the demo in one language."""

    title: str
    found: str
    broken: str
    overview: str
    request: str
    asked: str
    attached: str
    timeline: str
    user: str
    model: str
    tokens: str
    as_before: str
    call: str
    result: str
    artifact: str
    answer: str
    answered: str
    steps: str
    restarted: str
    asked_again: str
    tokens_heading: str
    grows: str
    spent: str
    at_once: str
    saved: str
    each: str
    sandbox: str
    no_sandbox: str
    next_title: str
    next: tuple[str, ...]
    failed: str


ENGLISH = Words(
    title="OpenSkill in a minute: a request becomes a file. No API key; your own files are neither read nor changed.",
    found="Discovery: {count} skills in skills/",
    broken="skipped, without affecting the others: {problem}",
    overview="Overview: what the model sees at first, {tokens:,} tokens (all token counts here are estimates)",
    request="The request",
    asked="What is in this table? Summarise it, please.",
    attached="with {name}, {bytes} bytes:",
    timeline="What happens. The model is `rule`, which is not an LLM and says so",
    user="user",
    model="request",
    tokens="{total:,} tokens to the model",
    as_before=", {unchanged:,} of them unchanged since the last request",
    call="call",
    result="result",
    artifact="artifact",
    answer="The answer",
    answered="answer",
    steps="after {steps} requests and {tool_calls} calls",
    restarted="After a restart: the session, with {events} events, is read from SQLite and continues",
    asked_again="Now plot a chart of the amount by month.",
    tokens_heading="Tokens",
    spent="{total:>7,} in {requests} requests, each skill shown when it was needed",
    at_once="{total:>7,} if all {count} skills and their documents were in every prompt",
    saved="{saved:>6.0%} saved with {count} skills, descriptions of tools counted on both sides",
    grows="{:>6.0%} with 20 such skills, {:.0%} with 50, {:.0%} with 134",
    each="Each further skill costs {listed} tokens until it is needed, and {full} in full.",
    sandbox="The sandbox: what a hostile script can reach",
    no_sandbox="Commands only run in a sandbox, and no sandbox works on this machine. To fix it:",
    next_title="Next, with a real model:",
    next=(
        "$ source .venv/bin/activate",
        "$ pip install -c constraints.txt -e '.[openai]'    # or '.[anthropic]'",
        "$ export OPENAI_API_KEY=...    # or ANTHROPIC_API_KEY, --model anthropic/claude-opus-5-5",
        '$ openskills chat "What is in it?" --attach your.csv --skills skills --model openai/gpt-5',
        "",
        "Without a key, --model rule does what you have just seen. `make demo ARGS=--tour` shows the other commands;",
        "docs/getting-started/ continues from here.",
    ),
    failed="The demo failed:",
)

CHINESE = Words(
    title="一分钟了解 OpenSkill：一句话的请求变成一个文件。不需要 API 密钥，不读写你的任何东西。",
    found="发现：skills/ 里有 {count} 个技能",
    broken="还有一个不能使用，但不影响其他技能：{problem}",
    overview="概览：模型一开始只看到这些，{tokens:,} 个 token（估算，下同）",
    request="请求",
    asked="这张表格里有什么？请汇总一下。",
    attached="附件 {name}，{bytes} 字节：",
    timeline="经过。这里的模型是 `rule`：它不是语言模型，自己也会说明",
    user="用户",
    model="请求",
    tokens="{total:,} 个 token 发给模型",
    as_before="，其中 {unchanged:,} 个与上一次请求相同",
    call="调用",
    result="结果",
    artifact="产物",
    answer="回答",
    answered="回答",
    steps="共 {steps} 次请求、{tool_calls} 次调用",
    restarted="重新启动后，会话从 SQLite 恢复：共有 {events} 个事件，继续对话",
    asked_again="现在画一张图表，按 month 显示 amount。",
    tokens_heading="Token",
    spent="{total:>7,}：{requests} 次请求，技能在需要时才展示",
    at_once="{total:>7,}：如果每次都把全部 {count} 个技能和文档放进提示词",
    saved="{saved:>6.0%} 节省（{count} 个技能，两边都计入工具描述）",
    grows="{:>6.0%}（20 个这样的技能时），50 个时 {:.0%}，134 个时 {:.0%}",
    each="每多一个技能，在用到之前只需 {listed} 个 token；全文需要 {full} 个。",
    sandbox="沙箱：脚本想要更多时会得到什么",
    no_sandbox="命令只在沙箱里运行，而这台机器上没有可用的沙箱。解决办法：",
    next_title="下一步，使用真正的模型：",
    next=(
        "$ source .venv/bin/activate",
        "$ pip install -c constraints.txt -e '.[openai]'    # 或者 '.[anthropic]'",
        "$ export OPENAI_API_KEY=...    # 或者 ANTHROPIC_API_KEY、--model anthropic/claude-opus-5-5",
        '$ openskills chat "里面有什么？" --attach your.csv --skills skills --model openai/gpt-5',
        "",
        "没有密钥时，--model rule 就是刚才看到的做法。`make demo ARGS=--tour` 演示其他命令，",
        "更多内容在 docs/getting-started/。",
    ),
    failed="演示失败：",
)

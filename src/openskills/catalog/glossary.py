"""Words of everyday work that mean the same, in English and Chinese: a request finds a skill that says it otherwise.

No dictionary: only what skills are asked for, and only words that have one meaning there ("order" and "class" have
too many). It is small, because every group that is not exactly one thing turns a miss into a wrong hit.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from openskills.catalog.words import stem

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
equation formula 公式 / trip travel journey itinerary 旅行 旅游 行程 / hotel accommodation lodging 酒店 住宿 /
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
    """Groups of words that mean the same. One without groups is none."""

    def __init__(self, groups: Iterable[Sequence[str]]) -> None:
        self._by_word = {stem(word): words[0] for words in groups for word in words}
        self._longest = max((len(word) for word in self._by_word if not word.isascii()), default=0)

    def meaning(self, term: str) -> str | None:
        """What a stem or a Chinese word means, as the first word of its group; None for a word of no group."""
        return self._by_word.get(term)

    def meanings_in(self, run: str) -> Iterator[tuple[int, int, str]]:
        """Where a run of Chinese characters has a word of a group: from, to, and what it means; longer words first.

        A word within a longer one does not count: `数据库` is a database and no data.
        """
        at = 0
        while at < len(run):
            longest = min(self._longest, len(run) - at)
            length = next((length for length in range(longest, 1, -1) if run[at : at + length] in self._by_word), 0)
            if length:
                yield at, at + length, self._by_word[run[at : at + length]]
            at += length or 1


def everyday_groups() -> list[list[str]]:
    """The groups of the list above."""
    lines: list[str] = [*_GROUPS.split(" /")]
    return [words.split() for words in lines]


@cache
def everyday() -> Glossary:
    """The list above, as a glossary."""
    return Glossary(everyday_groups())

"""GitHub's Markdown for Python's: a list or a table needs no blank line before it, and code in a cell may have an escaped bar."""
import re

ITEM = re.compile(r"\s*([-*]|\d+\.) ")


def on_page_markdown(markdown, **_):
    lines, fence = [], False
    for line in markdown.split("\n"):
        fence ^= line.lstrip().startswith("```")
        last = lines[-1] if lines else ""
        begins = (ITEM.match(line) and not ITEM.match(last) and not last.startswith(" ")) or (
            line.startswith("|") and not last.startswith("|"))
        if begins and last.strip() and not fence:
            lines.append("")
        if line.startswith("|"):
            line = re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line)
        lines.append(line)
    return "\n".join(lines)

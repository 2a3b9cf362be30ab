"""What a page offers to do: the operations of its forms."""

import re


def offered(page: str) -> set[str]:
    return set(re.findall(r'action="/do/([\w.]+)"', page))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks Markdown pages, and the places in other files that cite them. Prints every finding.

  tests/tidy/documents.py links   links, anchors, paths, DESIGN sections and design notes exist; counts of CONTRIBUTING
  tests/tidy/documents.py lines   lines of at most 100 characters, table cells of at most 160
  tests/tidy/documents.py words   no wording that docs/STYLE.md rejects, and no sentence twice on a page
"""
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ('cmake', 'coordinator', 'deploy', 'docs', 'kernels', 'proto', 'tests', 'worker')
# Files that may cite a page. Golden files are what programs print.
SOURCES = {'.h', '.cc', '.cu', '.cuh', '.proto', '.py', '.sh', '.cmake', '.txt', '.yml', '.yaml', '.tpl',
           '.service', '.env', '.md', ''}
MAXIMUM_LINE = 100
MAXIMUM_CELL = 160
LONG_SENTENCE = 80  # shorter ones may well be needed twice
# Written from comments and tables in the sources, which have checks of their own.
GENERATED = ('docs/reference/',)

PATH = re.compile(r'`((?:%s)/[A-Za-z0-9_./-]+)`' % '|'.join(FOLDERS))
# A path of something that does not exist yet, such as `worker/comm/<name>.h`: one like it must exist.
PATTERN = re.compile(r'`((?:%s)/[A-Za-z0-9_./-]*<name>[A-Za-z0-9_./-]*)`' % '|'.join(FOLDERS))
LINK = re.compile(r'\]\(([^)\s]+)\)')
# A page of this repository, also by the folder that packages install it in; not part of a URL.
PAGE = re.compile(r'(?:(?<![\w./-])|(?<=share/doc/stretto/))docs/[A-Za-z0-9_./-]*[A-Za-z0-9_](?:#[a-z0-9-]+)?')
SECTION = re.compile(r'DESIGN,? sections? (\d+)')
NOTE = re.compile(r'\b(?:design[ /]|design note )(\d{4})\b')

# What to write instead stands in docs/STYLE.md. Matched in prose, not in code.
REJECTED = re.compile(
    r'\b(beneath|goes on|go on|going on|went on|so many|has the bits of|stands? beside|stands? in|'
    r'lies in|lies beneath|no whole|takes up again|until then it)\b', re.IGNORECASE)


def pages():
    return sorted(ROOT.glob('*.md')) + sorted((ROOT / 'docs').rglob('*.md'))


def sources():
    """Every text file that people write, pages included."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob('*')):
            if path.is_file() and path.suffix in SOURCES and 'golden' not in path.relative_to(ROOT).parts:
                yield path
    yield from (path for path in sorted(ROOT.iterdir()) if path.is_file() and path.suffix in SOURCES and path.name != 'LICENSE')


def name(path):
    return str(path.relative_to(ROOT))


def numbered(path):
    """Lines with their numbers and the info string of the fence that they are in, None outside of one.

    Leaves out what a test writes from the code, between <!-- NAME --> and <!-- /NAME -->.
    """
    fence, generated = None, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        generated = (generated or re.fullmatch(r'<!-- \w+ -->', line) is not None) and not line.startswith('<!-- /')
        if generated:
            continue
        if line.lstrip().startswith('```'):
            fence = line.strip()[3:] if fence is None else None
            yield number, '', None
        else:
            yield number, line, fence


@functools.lru_cache(maxsize=None)
def anchors(path):
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for _, line, fence in numbered(path):
        if fence is None and line.startswith('#'):
            title = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', line.lstrip('#').strip()).lower()
            found.add(re.sub(r'[^\w\- ]', '', title).replace(' ', '-'))
    return found


def missing(target, folder):
    """Says what of 'page#anchor', relative to a folder, does not exist; None if all does."""
    file, _, anchor = target.partition('#')
    path = (folder / file).resolve()
    if not path.exists():
        return f'{file}, which does not exist'
    if anchor and path.suffix == '.md' and anchor not in anchors(path):
        return f'{target}, a heading that does not exist'
    return None


def check_lists():
    """Each list of CONTRIBUTING has as many files as the table in front of the lists names."""
    page = ROOT / 'CONTRIBUTING.md'
    counted, section = {}, ''
    for _, line, _ in numbered(page):
        if line.startswith('#'):
            section = line.lstrip('#').strip().lower().replace(' ', '-')
        elif line.startswith('| `'):
            cell = line.split(' | ')[0]
            counted[section] = counted.get(section, 0) + len(PATH.findall(cell)) + len(PATTERN.findall(cell))
    for number, line, _ in numbered(page):
        row = re.fullmatch(r'\| \[.*\]\(#([a-z-]+)\).*\| (\d+) \|', line)
        if row and counted.get(row[1]) != int(row[2]):
            yield f'CONTRIBUTING.md:{number}: found {row[2]} files, expected {counted.get(row[1])} as in the list'


def check_links():
    yield from check_lists()
    sections = set(re.findall(r'^## (\d+)\. ', (ROOT / 'docs/DESIGN.md').read_text(), re.M))
    notes = {path.name[:4] for path in (ROOT / 'docs/design').glob('[0-9]*.md')}
    for path in pages():
        for number, line, fence in numbered(path):
            if fence is not None:
                continue
            for target in LINK.findall(line):
                if target.startswith(('http:', 'https:')):
                    continue
                fault = missing(target if not target.startswith('#') else path.name + target, path.parent)
                if fault:
                    yield f'{name(path)}:{number}: link to {fault}'
            for target in PATH.findall(line):
                if not (ROOT / target).exists():
                    yield f'{name(path)}:{number}: names {target}, which does not exist'
            for target in PATTERN.findall(line):
                if not any(ROOT.glob(target.replace('<name>', '*'))):
                    yield f'{name(path)}:{number}: names {target}, and nothing like it exists'
    for path in sources():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        # A citation may continue on the next line of a comment.
        joined = re.sub(r'\n\s*(?://|#|\*)?\s*', ' ', text)
        for section in set(SECTION.findall(joined)) - sections:
            yield f'{name(path)}: cites DESIGN section {section}, which does not exist'
        for note in set(NOTE.findall(joined)) - notes:
            yield f'{name(path)}: cites design note {note}, which does not exist'
        if path.suffix == '.md':
            continue
        for target in sorted(set(PAGE.findall(text))):
            if re.fullmatch(r'docs/design/\d{4}', target):
                continue
            fault = missing(target, ROOT)
            if fault:
                yield f'{name(path)}: cites {fault}'
    index = (ROOT / 'docs/design/README.md').read_text()
    for note in sorted((ROOT / 'docs/design').glob('[0-9]*.md')):
        if f']({note.name})' not in index:
            yield f'docs/design/README.md: found no link to {note.name}, expected one to each note'


def check_lines():
    for path in pages():
        if name(path).startswith(GENERATED):
            continue
        for number, line, fence in numbered(path):
            if fence == 'text':  # what a program prints, as wide as it prints it
                continue
            if fence is None and line.lstrip().startswith('|'):
                for cell in re.split(r'(?<!\\)\|', line.strip().strip('|')):
                    if len(cell.strip()) > MAXIMUM_CELL:
                        yield (f'{name(path)}:{number}: table cell of {len(cell.strip())} characters, '
                               f'expected at most {MAXIMUM_CELL}: {cell.strip()[:40]}...')
            # A line that is one word, such as a link, cannot be broken.
            elif len(line) > MAXIMUM_LINE and ' ' in line.strip():
                yield f'{name(path)}:{number}: {len(line)} characters, expected at most {MAXIMUM_LINE}'


def sentences(path):
    """Sentences of the prose with the numbers of the lines on which their paragraphs begin."""
    begin, words = 0, ''
    for number, line, fence in [*numbered(path), (0, '', None)]:
        text = line.strip()
        if fence is not None or not text or text.startswith(('|', '#', '- ')):
            yield from ((begin, one) for one in re.split(r'(?<=[.?!]) ', words))
            begin, words = number, ''
        if fence is None and not text.startswith(('|', '#')):
            words = f'{words} {text}'.strip()


def check_repeats(path):
    seen = {}
    for number, sentence in sentences(path):
        first = seen.setdefault(sentence, number) if len(sentence) >= LONG_SENTENCE else number
        if first != number:
            yield f'{name(path)}:{number}: found a sentence of the paragraph at line {first} again: {sentence[:60]}...'


def check_words():
    for path in pages():
        if name(path).startswith(GENERATED) or name(path) == 'docs/STYLE.md':
            continue
        yield from check_repeats(path)
        for number, line, fence in numbered(path):
            if fence is None:
                for word in REJECTED.findall(re.sub(r'`[^`]*`', '', line)):
                    yield f'{name(path)}:{number}: "{word}", which docs/STYLE.md rejects'


def main():
    rules = {'links': check_links, 'lines': check_lines, 'words': check_words}
    if len(sys.argv) != 2 or sys.argv[1] not in rules:
        sys.exit(__doc__)
    findings = list(rules[sys.argv[1]]())
    print('\n'.join(findings), end='\n' if findings else '')
    sys.exit(1 if findings else 0)


main()

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Block,
  type MarkdownNode,
  MarkdownReader,
  markdownOf,
  type TextTag,
} from '../studio/src/chat/markdown/markdown-tree.ts'
import type { ReplyPiece } from '../studio/src/marks/reply-text.ts'

const TAGS: readonly TextTag[] = ['p', 'strong', 'em', 'del', 'code', 'blockquote', 'ul', 'li']
const MENTION: ReplyPiece = { kind: 'annotation', label: 'cup', marks: [], clips: [] }

const read = (text: string): readonly Block[] => new MarkdownReader().read(text)
const prose = (text: string): ReplyPiece => ({ kind: 'prose', text })

/** A node and all within it. */
function within(node: MarkdownNode): MarkdownNode[] {
  const cells = node.kind === 'table' ? [...node.head, ...node.rows.flat()].flatMap(({ children }) => children) : []
  return [node, ...('children' in node ? node.children : cells).flatMap(within)]
}

function shown(text: string): string {
  return read(text)
    .map(({ node }) =>
      within(node)
        .map((one) => (one.kind === 'text' ? one.text : one.kind === 'break' ? '\n' : ''))
        .join(''),
    )
    .join('\n')
}

/** Anything that a model may write, with much of what Markdown looks at. */
const markdown = fc
  .array(
    fc.oneof(
      fc.constantFrom('*', '**', '_', '`', '```', '~~', '#', '> ', '- ', '1. ', '[', ']', '(', ')', '![', '|', '|-|-|'),
      fc.constantFrom('\n', '\n\n', ' ', '    ', '\\', '$', '$$', '\\(', '\\)', '[ ] ', '---', '&lt;', '\t', '\r\n'),
      fc.constantFrom('<script>', '<img src=x onerror=alert(1)>', '</b>', 'javascript:alert(1)', 'data:text/html,x'),
      fc.constantFrom('https://a.example', 'www.a.example', 'a@b.example', 'JaVaScRiPt:x', '//a.example', 'vbscript:x'),
      fc.stringMatching(/^[a-zé0-9]{1,6}$/),
      fc.string({ unit: 'binary', maxLength: 4 }),
    ),
    { maxLength: 40 },
  )
  .map((pieces) => pieces.join(''))

describe('the Markdown of a reply', () => {
  test('becomes nothing but what is on the list, and links lead only to the web and to mail', () => {
    fc.assert(
      fc.property(markdown, (text) => {
        for (const node of read(text).flatMap((block) => within(block.node))) {
          if (node.kind === 'element') expect(TAGS).toContain(node.tag)
          if (node.kind === 'link') expect(['http:', 'https:', 'mailto:']).toContain(new URL(node.href).protocol)
        }
      }),
      { numRuns: 500 },
    )
  })

  test('plain text is shown as it is', () => {
    const word = fc.stringMatching(/^[a-zA-Zé0-9,;:%'"?/=&<>$^{}()-]*[a-zé0-9,;%'"?/&<>$^{}()]$/)
    const line = fc.array(word, { minLength: 1, maxLength: 6 }).map((words) => `A ${words.join(' ')}`)
    fc.assert(
      fc.property(fc.array(line, { minLength: 1, maxLength: 5 }), (lines) => {
        // Formulas are shown with their dollars too.
        expect(shown(lines.join('\n'))).toBe(lines.join('\n'))
        expect(shown(lines.join('\n\n'))).toBe(lines.join('\n'))
      }),
    )
  })

  test.each([
    'snake_case_name and __init__.py',
    '2*3*4, x**2**y and f(a)*b*c',
    '<b>bold</b> &amp; <script>alert(1)</script>',
    'costs $5_000_ and $x_1 * y_2 * z$, or \\(a_b * c_d\\)',
    '[x](javascript:alert(1)) ![y](data:image/png;base64,AA)',
    '[1]: https://a.example "a note"',
    'a line\n=====',
  ])('keeps the signs of %j', (text) => {
    expect(shown(text)).toBe(text)
  })

  test('shows each mention once, wherever it is', () => {
    const piece = fc.oneof(markdown.map(prose), fc.constant(MENTION))
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const indices = read(markdownOf(pieces))
          .flatMap(({ node }) => within(node))
          .flatMap((node) => (node.kind === 'mention' ? [node.index] : []))
        const expected = pieces.flatMap(({ kind }, index) => (kind === 'annotation' ? [index] : []))
        expect(indices.toSorted((a, b) => a - b)).toEqual(expected)
      }),
      { numRuns: 500 },
    )
  })

  test('that arrives piece by piece is the same in the end, and blocks that are whole stay the same objects', () => {
    fc.assert(
      fc.property(markdown, fc.integer({ min: 1, max: 9 }), (text, step) => {
        const reader = new MarkdownReader()
        let whole: readonly Block[] = []
        for (let end = step; end < text.length; end += step) {
          const sofar = text.slice(0, end).replaceAll(/\r\n?/g, '\n')
          const blocks = reader.read(sofar, true)
          for (const [index, block] of whole.entries()) expect(blocks[index]).toBe(block)
          whole = blocks.filter(({ start }) => start <= sofar.lastIndexOf('\n')).slice(0, -1)
        }
        expect(reader.read(text)).toEqual(read(text))
      }),
      { numRuns: 500 },
    )
  })

  test('shows no mark before its meaning is known', () => {
    const growing = (text: string) => new MarkdownReader().read(text, true).map(({ node }) => node)
    expect(growing('Two things:\n-')).toEqual(read('Two things:').map(({ node }) => node))
    expect(growing('It is **very')).toEqual(read('It is **very**').map(({ node }) => node))
    expect(growing('See [the page](https://a.exa')).toEqual(read('See ').map(({ node }) => node))
    expect(growing('```py\nx = 2 ** 3')).toEqual(read('```py\nx = 2 ** 3').map(({ node }) => node))
  })

  test('is read in time when a model repeats empty cells', () => {
    const rows = '|  |  |\n'.repeat(1000)
    // Quadratic in the rows at most: a cubic search would take minutes.
    expect(new MarkdownReader().read(`| a | b |\n|---|---|\n${rows}|  | x`, true)).toHaveLength(1)
  })

  test('is read also where it is nested deeper than any person would read', () => {
    expect(shown(`${'> '.repeat(3000)}deep`)).toContain('deep')
  })
})

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PAGE_NOTATIONS, type PageNotationName } from './notations.ts'

const PICTURE = { width: 700, height: 1400 }
const NAMES = Object.keys(PAGE_NOTATIONS) as PageNotationName[]
const HTML = `<html><body>
<h2 data-bbox="100 50 900 100">A &amp; B</h2>
<div class="image" data-bbox="0 100 500 500"><img data-bbox="1 101 499 499"/></div>
<ol data-bbox="0 500 1000 700"><li data-bbox="0 500 1000 600"><p>One<br>more</p></li><li><p data-bbox="0 600 1000 700">Two</p></li></ol>
<table data-bbox="0 700 1000 800"><tr data-bbox="1 2 3 4"><td colspan="2">x &lt; y</td></tr></table>
<div class="formula" data-bbox="0 800 1000 900"><img data-bbox="0 800 1000 900"/><div>a^2</div></div>
loose</body></html>`
const SAMPLES: Readonly<Record<PageNotationName, string>> = {
  markdown: '```markdown\n# Title\n```',
  'dots-ocr':
    '[{"bbox": [70, 140, 350, 700], "category": "Title", "text": "A {b} \\"c\\""}, {"bbox": [0, 0, 7, 7], "category": "Picture"}]',
  'deepseek-ocr':
    '<|ref|>text<|/ref|><|det|>[[1, 2, 3, 4], [5, 6, 7, 8]]<|/det|>\nHello\n<|ref|>image<|/ref|><|det|>[[1, 2, 3, 4]]<|/det|>',
  'qwen3-vl': HTML,
  'qwen2.5-vl': HTML,
  'lighton-ocr': 'Hello\n![image](image_1.png)1,2,3,4\nBye',
}

describe.each(NAMES)('%s', (name) => {
  const pieces = fc.constantFrom(...SAMPLES[name].split(/\b/), '{', '"', '\\', '<', '|', '999999', '-1', '1e999', '\n')
  const texts = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(pieces, { maxLength: 60 }).map((all) => all.join('')),
  )

  test('any text is read, and its places lie on the page', () => {
    fc.assert(
      fc.property(texts, (text) => {
        for (const { content, box } of PAGE_NOTATIONS[name](text, PICTURE)) {
          expect(typeof content).toBe('string')
          if (box === null) continue
          expect(box.left).toBeLessThanOrEqual(box.right)
          expect(box.top).toBeLessThanOrEqual(box.bottom)
          for (const share of Object.values(box)) expect(share >= 0 && share <= 1).toBe(true)
        }
      }),
      { numRuns: 500 },
    )
  })

  test('a text that is cut off keeps what came before', () => {
    const whole = SAMPLES[name]
    const blocks = PAGE_NOTATIONS[name](whole, PICTURE)
    for (let length = 0; length < whole.length; length++) {
      const cut = PAGE_NOTATIONS[name](whole.slice(0, length), PICTURE)
      expect(cut.slice(0, -1)).toEqual(blocks.slice(0, Math.max(0, cut.length - 1)))
    }
  })
})

test('HTML becomes Markdown, but for tables', () => {
  const blocks = PAGE_NOTATIONS['qwen3-vl'](HTML, PICTURE)
  expect(blocks.map(({ type, content, box }) => [type, content, box && Math.round(box.top * 1000)])).toEqual([
    ['title', '## A & B', 50],
    ['image', '', 101],
    ['list', '1. One\nmore', 500],
    ['list', '2. Two', 600],
    ['table', '<table><tr><td colspan="2">x &lt; y</td></tr></table>', 700],
    ['equation', '$$\na^2\n$$', 800],
    ['text', 'loose', null],
  ])
  expect(PAGE_NOTATIONS['qwen2.5-vl'](HTML, PICTURE)[0]!.box).toMatchObject({ left: 100 / 700, bottom: 100 / 1400 })
})

test('a text of marks without an end is read in linear time', () => {
  for (const name of NAMES) {
    for (const piece of [
      '{"',
      '<|ref|>a',
      '![image](image_1.png)1,',
      '<|ref|>a<|/ref|><|det|>[[1,',
      '\n```',
      '<a "',
      '<!--',
      '<p ',
      '<table>',
    ]) {
      expect(PAGE_NOTATIONS[name](piece.repeat(50_000), PICTURE).length).toBeGreaterThan(0)
    }
  }
})

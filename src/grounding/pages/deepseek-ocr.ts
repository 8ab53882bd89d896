import { around, type BlockType, boxOf, type PageBlock, type PageNotation, textBlocks, upTo } from './page.ts'

const MOST = upTo(999)

const TYPES: readonly (readonly [RegExp, BlockType])[] = [
  [/caption|figure_title/, 'caption'],
  [/title/, 'title'],
  [/^(image|figure|chart)$/, 'image'],
  [/^table$/, 'table'],
  [/equation|formula/, 'equation'],
  [/list/, 'list'],
  [/code/, 'code'],
  [/reference/, 'references'],
  [/header/, 'header'],
  [/footer|page_number/, 'footer'],
  [/^(text|paragraph|footnote|table_footnote)$/, 'text'],
]

const MARK = /<\|ref\|>([^<]*)<\|\/ref\|>\s*<\|det\|>([[\]\d.,\s]*)(?:<\|\/det\|>|$)/g
/** Marks outside a complete block. */
const STRAY = /<\|\/?(?:ref|det|grounding)\|>/g

/**
 * DeepSeek-OCR: `<|ref|>title<|/ref|><|det|>[[115, 80, 365, 113]]<|/det|>` precedes the Markdown of a block, on a grid
 * of 0..999. If the name is not a kind of block, it is the text. https://github.com/deepseek-ai/DeepSeek-OCR
 */
export const deepSeekOcrPage: PageNotation = (written) => {
  const marks = [...written.matchAll(MARK)]
  const plain = (text: string) => text.replace(STRAY, '').trim()
  const blocks = textBlocks(plain(written.slice(0, marks[0]?.index)))
  for (const [index, mark] of marks.entries()) {
    const [whole, name, places] = mark as unknown as [string, string, string]
    const content = plain(written.slice(mark.index + whole.length, marks[index + 1]?.index))
    const numbers = (places.match(/\d+(?:\.\d+)?/g) ?? []).map(Number)
    const boxes = Array.from({ length: Math.floor(numbers.length / 4) }, (_, four) =>
      boxOf(numbers.slice(4 * four, 4 * four + 4), MOST),
    )
    const box = around(boxes.filter((one) => one !== null))
    const type = TYPES.find(([pattern]) => pattern.test(name.trim()))?.[1]
    if (type !== undefined) blocks.push(...blocksOf(type, content, box))
    else blocks.push({ type: 'text', content: [name.trim(), content].filter((text) => text !== '').join('\n'), box })
  }
  return blocks.filter(({ type, content }) => type === 'image' || content !== '')
}

/** The text after a picture is a block of its own. */
function blocksOf(type: BlockType, content: string, box: PageBlock['box']): PageBlock[] {
  return type === 'image' ? [{ type, content: '', box }, ...textBlocks(content)] : [{ type, content, box }]
}

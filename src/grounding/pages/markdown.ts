import { boxOf, type PageBlock, type PageNotation, textBlocks, upTo } from './page.ts'

const GRID = upTo(1000)
const FENCE = /^\s*```(?:markdown|md|html)[ \t]*\n([\s\S]*?)(?:\n```\s*)?$/i

/** A text that is entirely Markdown. */
export const markdownPage: PageNotation = (written) => textBlocks(withoutFence(written))

/** Models that are asked only for Markdown may still put it in a code fence. */
export function withoutFence(text: string): string {
  const inner = FENCE.exec(text)?.[1]
  return inner === undefined || /^```/m.test(inner) ? text : inner
}

const FIGURE =
  /!\[[^[\]\n]*\]\(image_\d{1,3}\.png\)[ \t]*(\d{1,4})[ \t]*,[ \t]*(\d{1,4})[ \t]*,[ \t]*(\d{1,4})[ \t]*,[ \t]*(\d{1,4})/g

/**
 * LightOnOCR-2 bbox: Markdown in which `![image](image_1.png)120,80,900,410` represents a figure, on a grid of 0..1000.
 * https://huggingface.co/lightonai/LightOnOCR-2-1B-bbox
 */
export const lightOnOcrPage: PageNotation = (written) => marked(withoutFence(written), FIGURE, figureOf)

/** @returns a block for each match of the pattern, and the texts between them as `textBlocks`. */
function marked(
  text: string,
  pattern: RegExp,
  blockOf: (mark: RegExpExecArray) => { readonly block: PageBlock; readonly end: number },
): PageBlock[] {
  const blocks: PageBlock[] = []
  let from = 0
  for (const mark of text.matchAll(pattern)) {
    if (mark.index < from) continue
    blocks.push(...textBlocks(text.slice(from, mark.index)))
    const { block, end } = blockOf(mark)
    blocks.push(block)
    from = end
  }
  return [...blocks, ...textBlocks(text.slice(from))]
}

function figureOf(mark: RegExpExecArray) {
  const box = boxOf(mark.slice(-4).map(Number), GRID)
  return { block: { type: 'image', content: '', box } as const, end: mark.index + mark[0].length }
}

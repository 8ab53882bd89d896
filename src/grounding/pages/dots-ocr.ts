import { type BlockType, boxOf, type PageBlock, type PageNotation, textBlocks } from './page.ts'

const TYPES: Readonly<Record<string, BlockType>> = {
  Caption: 'caption',
  Formula: 'equation',
  'List-item': 'list',
  'Page-footer': 'footer',
  'Page-header': 'header',
  Picture: 'image',
  'Section-header': 'title',
  Table: 'table',
  Title: 'title',
}

/**
 * dots.ocr: `[{"bbox": [10, 20, 300, 400], "category": "Text", "text": "..."}]`, in pixels of the picture as the model sees it.
 * Tables are HTML, formulas LaTeX. https://github.com/rednote-hilab/dots.ocr (layout_utils.py)
 */
export const dotsOcrPage: PageNotation = (written, picture) => {
  const blocks = [...objectsIn(written)].flatMap((text): PageBlock[] => {
    const { bbox, category, text: content = '' } = parsed(text) ?? {}
    if (typeof category !== 'string' || typeof content !== 'string') return []
    const type = TYPES[category] ?? 'text'
    const numbers = Array.isArray(bbox) ? bbox.map(Number) : []
    return [{ type, content: type === 'equation' ? displayed(content) : content.trim(), box: boxOf(numbers, picture) }]
  })
  return blocks.length === 0 ? textBlocks(written) : blocks
}

/** The innermost objects of a JSON text. The last may be truncated. */
function* objectsIn(text: string): Generator<string, void, void> {
  let start = -1
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (isQuoted && character === '\\') at++
    else if (character === '"') isQuoted = start !== -1 && !isQuoted
    else if (isQuoted) continue
    else if (character === '{') start = at
    else if (character === '}' && start !== -1) {
      yield text.slice(start, at + 1)
      start = -1
    }
  }
  if (start !== -1) yield text.slice(start)
}

function parsed(text: string): Readonly<Record<string, unknown>> | null {
  for (const end of ['', '"}', '}', ']}']) {
    try {
      return JSON.parse(text + end)
    } catch {
      // Truncated elsewhere.
    }
  }
  return null
}

function displayed(formula: string): string {
  const text = formula.trim()
  return text === '' || text.includes('$') ? text : `$$\n${text}\n$$`
}

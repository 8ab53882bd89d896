import { Marked, type MarkedToken, type Token, type TokenizerExtension, type Tokens } from 'marked'
import type { ReplyPiece } from '../../marks/reply-text.ts'

/*
 * A model's Markdown as a tree of a few kinds of nodes. Nothing else becomes an element of the page: HTML stays text, images
 * become links, and links lead only to web pages and mail addresses.
 */

export type TextTag = 'p' | 'strong' | 'em' | 'del' | 'code' | 'blockquote' | 'ul' | 'li' | 'div'

export type MarkdownNode =
  | { readonly kind: 'text'; readonly text: string }
  /** An annotation of the reply, by its index among the pieces. */
  | { readonly kind: 'mention'; readonly index: number }
  | { readonly kind: 'element'; readonly tag: TextTag; readonly children: MarkdownNodes }
  | { readonly kind: 'heading'; readonly depth: number; readonly children: MarkdownNodes }
  | { readonly kind: 'ordered'; readonly start: number; readonly children: MarkdownNodes }
  | { readonly kind: 'link'; readonly href: string; readonly children: MarkdownNodes }
  | { readonly kind: 'codeBlock'; readonly language: string; readonly text: string; readonly children: MarkdownNodes }
  | { readonly kind: 'table'; readonly head: readonly TableCell[]; readonly rows: readonly (readonly TableCell[])[] }
  | { readonly kind: 'task'; readonly isDone: boolean }
  | { readonly kind: 'break' }
  | { readonly kind: 'rule' }

export type MarkdownNodes = readonly MarkdownNode[]

export interface TableCell {
  readonly align: 'center' | 'left' | 'right' | null
  readonly children: MarkdownNodes
}

/** Characters of a private plane stand for annotations: to Markdown they are letters. */
const FIRST_MENTION = 0xf0000
const MENTION = /([\u{f0000}-\u{ffffd}])/u

/** A reply as one text: what stands for an annotation is a mention of its index among the pieces. */
export function markdownOf(pieces: readonly ReplyPiece[]): string {
  return pieces
    .map((piece, index) => {
      if (piece.kind === 'annotation') return String.fromCodePoint(FIRST_MENTION + index)
      // Such characters of the model itself are not mentions.
      return piece.text.replaceAll(new RegExp(MENTION, 'gu'), '\ufffd')
    })
    .join('')
}

/** Formulas stay text, and their `_`, `*` and `\` are not Markdown. A dollar before a digit does not end one: it is a price. */
const FORMULA = /^(?:\$\$[^$]+\$\$|\$(?![\s$])[^$\n]*[^\s$]\$(?!\d)|\\\([^\n]+?\\\)|\\\[[\s\S]+?\\\])/

const formula = (level: 'block' | 'inline'): TokenizerExtension => ({
  name: `formula-${level}`,
  level,
  start: (source) => {
    const at = source.search(level === 'block' ? /^(?:\$\$|\\\[)/m : /\$|\\[([]/)
    return at === -1 ? undefined : at
  },
  tokenizer(source) {
    if (level === 'block' && !/^(?:\$\$|\\\[)/.test(source)) return undefined
    const [raw] = FORMULA.exec(source) ?? []
    return raw === undefined ? undefined : { type: `formula-${level}`, raw }
  },
})

/** `__init__` is a name more often than bold. */
const dunder: TokenizerExtension = {
  name: 'dunder',
  level: 'inline',
  start: (source) => {
    const at = source.indexOf('__')
    return at === -1 ? undefined : at
  },
  tokenizer(source) {
    const [raw] = /^__+\w*/.exec(source) ?? []
    return raw === undefined ? undefined : { type: 'text', raw, text: raw }
  },
}

const marked = new Marked({
  gfm: true,
  breaks: true,
  extensions: [formula('block'), formula('inline'), dunder],
  tokenizer: {
    // HTML stays text, and so do definitions of links, which would vanish. A line below a text does not make it a heading.
    html: () => undefined,
    tag: () => undefined,
    def: () => undefined,
    lheading: () => undefined,
    emStrong(_source, _masked, before = '') {
      // 2*3*4 and x**2**y
      return /[\w)*]/.test(before) ? undefined : false
    },
  },
})

/** A block of the text, with the place where it begins. */
export interface Block {
  readonly start: number
  readonly node: MarkdownNode
}

/** Reads Markdown that grows at its end: blocks that are whole are read once, and stay the same objects. */
export class MarkdownReader {
  #text = ''
  #isOpen = false
  #blocks: readonly Block[] = []

  /** @param isOpen whether more of the text may arrive. */
  read(given: string, isOpen = false): readonly Block[] {
    const text = given.replaceAll(/\r\n?/g, '\n')
    if (text === this.#text && isOpen === this.#isOpen) return this.#blocks
    // The last line may turn out to be anything, and the block before it may go on with it.
    const line = this.#text.lastIndexOf('\n') + 1
    const known = text.startsWith(this.#text) ? this.#blocks.filter(({ start }) => start < line) : []
    const whole = known.slice(0, -1)
    const from = known.at(-1)?.start ?? 0
    this.#text = text
    this.#isOpen = isOpen
    const tail = text.slice(from)
    this.#blocks = [...whole, ...readBlocks(isOpen ? settled(tail) : tail, from)]
    return this.#blocks
  }
}

function readBlocks(text: string, from: number): Block[] {
  try {
    let start = from
    return marked.lexer(text).flatMap((token): Block[] => {
      const own = start
      start += token.raw.length
      const nodes = nodesOf([token])
      const [first] = nodes
      if (first === undefined) return []
      const node = nodes.length === 1 && first.kind !== 'text' ? first : paragraph(nodes)
      return [{ start: own, node: withAllMentions(node, token.raw) }]
    })
  } catch {
    // Nested deeper than the browser's stack.
    return [{ start: from, node: paragraph(textNodes(text)) }]
  }
}

/** A table drops the surplus cells of a row. Every mention must be shown. */
function withAllMentions(node: MarkdownNode, raw: string): MarkdownNode {
  const isWhole = !MENTION.test(raw) || countMentions(node) === raw.split(new RegExp(MENTION, 'gu')).length >> 1
  return isWhole ? node : paragraph(textNodes(raw))
}

function countMentions(node: MarkdownNode): number {
  if (node.kind === 'mention') return 1
  const cells = node.kind === 'table' ? [...node.head, ...node.rows.flat()] : []
  const children = 'children' in node ? node.children : cells.flatMap((cell) => cell.children)
  return children.reduce((sum, child) => sum + countMentions(child), 0)
}

/**
 * A text that is still arriving, so that nothing is shown as what it will not be: without signs at its end that have no
 * meaning yet, and with bold text and code closed.
 */
function settled(text: string): string {
  const shown = text
    .replace(/(?:[*_~`]+|!?\[[^\]\n]*(?:\]\([^)\s]*)?)$/, '')
    .replace(/(^|\n)[-+*_=#>|:~`\s]*(?:\d{1,3}[.)]?[-:|\s]*)?$/, '$1')
  if ((shown.match(/^[ \t>]*(?:```|~~~)/gm)?.length ?? 0) % 2 === 1) return shown
  const line = shown.slice(shown.lastIndexOf('\n') + 1)
  if ((line.match(/`/g)?.length ?? 0) % 2 === 1) return `${shown}\``
  return (line.match(/\*\*/g)?.length ?? 0) % 2 === 1 ? `${shown.trimEnd()}**` : shown
}

function nodesOf(tokens: readonly Token[] | undefined): MarkdownNode[] {
  return (tokens ?? []).flatMap((token) => nodesOfToken(token as MarkedToken))
}

function nodesOfToken(token: MarkedToken | FormulaToken): MarkdownNode[] {
  switch (token.type) {
    case 'space':
      return []
    case 'paragraph':
      return [paragraph(nodesOf(token.tokens))]
    case 'text':
      return token.tokens ? nodesOf(token.tokens) : textNodes(token.text)
    case 'escape':
      return textNodes(token.text)
    case 'heading':
      return [{ kind: 'heading', depth: token.depth, children: nodesOf(token.tokens) }]
    case 'strong':
    case 'em':
    case 'del':
    case 'blockquote':
      return [{ kind: 'element', tag: token.type, children: nodesOf(token.tokens) }]
    case 'list':
      return [listOf(token)]
    case 'checkbox':
      return [{ kind: 'task', isDone: token.checked }]
    case 'table':
      return [{ kind: 'table', head: cellsOf(token.header), rows: token.rows.map(cellsOf) }]
    case 'code':
      return [codeBlock(token)]
    case 'codespan':
    case 'formula-inline':
      return [{ kind: 'element', tag: 'code', children: textNodes('text' in token ? token.text : token.raw) }]
    case 'formula-block':
      return [paragraph([{ kind: 'element', tag: 'code', children: textNodes(token.raw.trim()) }])]
    case 'link':
      return linkOr(token, nodesOf(token.tokens))
    case 'image':
      return linkOr(token, textNodes(token.text || token.href))
    case 'br':
      return [{ kind: 'break' }]
    case 'hr':
      return [{ kind: 'rule' }]
    default:
      return textNodes(token.raw)
  }
}

interface FormulaToken {
  readonly type: 'formula-block' | 'formula-inline'
  readonly raw: string
}

function paragraph(children: MarkdownNodes): MarkdownNode {
  return { kind: 'element', tag: 'p', children }
}

function listOf({ ordered, start, items }: Tokens.List): MarkdownNode {
  const children = items.map((item) => ({ kind: 'element', tag: 'li', children: nodesOf(item.tokens) }) as const)
  return ordered ? { kind: 'ordered', start: Number(start), children } : { kind: 'element', tag: 'ul', children }
}

function cellsOf(cells: readonly Tokens.TableCell[]): TableCell[] {
  return cells.map(({ align, tokens }) => ({ align, children: nodesOf(tokens) }))
}

function codeBlock({ lang = '', text }: Tokens.Code): MarkdownNode {
  // A mention in the name of the language is shown in the code.
  const isPlain = !MENTION.test(lang)
  const shown = isPlain ? text : `${lang}\n${text}`
  return { kind: 'codeBlock', language: isPlain ? lang : '', text: shown, children: textNodes(shown) }
}

/** A link, or its source if it leads elsewhere. A mention is a button, which must not be inside a link. */
function linkOr({ href, raw }: Tokens.Link | Tokens.Image, children: MarkdownNodes): MarkdownNodes & MarkdownNode[] {
  const isSafe = /^(?:https?:\/\/|mailto:)/i.test(href) && URL.canParse(href) && !MENTION.test(href)
  if (!isSafe) return textNodes(raw)
  return children.some((child) => countMentions(child) > 0) ? [...children] : [{ kind: 'link', href, children }]
}

/** A text with the mentions in it. */
function textNodes(text: string): MarkdownNode[] {
  return text.split(MENTION).flatMap((part, index): MarkdownNode[] => {
    if (index % 2 === 1) return [{ kind: 'mention', index: part.codePointAt(0)! - FIRST_MENTION }]
    return part === '' ? [] : [{ kind: 'text', text: part }]
  })
}

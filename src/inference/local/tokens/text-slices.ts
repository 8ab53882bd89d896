import type { TextPart } from '../../contract/parts.ts'

/**
 * Characters per slice. llama.cpp's search for tokens that were added to a vocabulary takes time that grows with the
 * square of the length: 256 KiB of `<think>x` take 14 s, one slice 3 ms.
 */
export const SLICE_CHARACTERS = 4096
/** A slice may be cut within this many characters before its maximum end. */
const CUT_CHARACTERS = 1024

/**
 * Cuts a long text where tokenisers of words and subwords cut it anyway: before a space between two words, or, in trusted
 * text, before a control token at the start of a line or after another control token. A client's text without such a boundary
 * is cut between two characters.
 * @param least characters of a slice; longer where there is no boundary.
 */
export function* slicesOf(
  { text, trusted }: Pick<TextPart, 'text' | 'trusted'>,
  least = SLICE_CHARACTERS,
): Generator<string, void, void> {
  const isBoundary = trusted ? isBeforeControlToken : isBetweenWords
  for (let start = 0; start < text.length; ) {
    const latest = start + SLICE_CHARACTERS
    let end = Math.min(start + least, latest)
    while (end < latest && end < text.length && !isBoundary(text, end)) end++
    if (end >= latest) end = cutBehind(text, latest, isBoundary, trusted)
    yield text.slice(start, end)
    start = end
  }
}

type Test = (text: string, at: number) => boolean

function cutBehind(text: string, latest: number, isBoundary: Test, onlyThere: boolean): number {
  if (latest >= text.length) return text.length
  for (let at = latest; at > latest - CUT_CHARACTERS; at--) if (isBoundary(text, at)) return at
  if (onlyThere) {
    let at = latest
    while (at < text.length && !isBoundary(text, at)) at++
    return at
  }
  return isWithinPair(text, latest) ? latest - 1 : latest
}

function isBetweenWords(text: string, at: number): boolean {
  return text[at] === ' ' && !isBlank(text.charCodeAt(at - 1)) && !isBlank(text.charCodeAt(at + 1))
}

function isBeforeControlToken(text: string, at: number): boolean {
  return text[at] === '<' && (text[at - 1] === '\n' || text[at - 1] === '>')
}

function isBlank(code: number): boolean {
  return !(code > 0x20) || (code >= 0x7f && code <= 0xa0) || (code >= 0x2000 && code <= 0x206f) || code === 0x3000
}

function isWithinPair(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800
}

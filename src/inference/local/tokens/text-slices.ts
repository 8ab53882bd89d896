import { getOrMake } from '../../../lib/get-or-make.ts'
import type { AddedToken } from '../native/model.ts'

/**
 * Characters per slice. llama.cpp's search for tokens that were added to a vocabulary takes time that grows with the
 * square of the length: 256 KiB of `<think>x` take 14 s, one slice 3 ms.
 */
export const SLICE_CHARACTERS = 4096
/** A slice may be cut at most this many characters before its maximum end. */
const CUT_CHARACTERS = 1024
/** Maximum characters of a slice without any boundary but the end of a character: a native call takes about 0.1 s. */
const WORD_CHARACTERS = 64 * SLICE_CHARACTERS

export interface Cuts {
  /** Whether a text may also be cut between words. */
  readonly atWords: boolean
  /** Whether a longer slice is preferred to a cut between arbitrary characters. */
  readonly keepsWords?: boolean
  /** Minimum characters of a slice; it is longer if there is no boundary. */
  readonly least?: number
}

/**
 * Cuts a long text where tokenisers cut it anyway: at added tokens and, for tokenisers that split text into words,
 * before a space between two words. If a text has no such place, it is cut after a letter or a digit, in the worst case
 * between arbitrary characters. If text is not cut at words, slices without an added token are longer.
 * @yields slices, and empty texts while it searches for the end of a long one, so that the caller can do other work.
 */
export function* slicesOf(
  text: string,
  added: AddedTokens,
  { atWords, keepsWords = false, least = SLICE_CHARACTERS }: Cuts,
): Generator<string, void, void> {
  const leastAtToken = Math.min(least, SLICE_CHARACTERS - CUT_CHARACTERS)
  let start = 0
  let low = 0
  let isCut = false
  for (const place of added.placesIn(text)) {
    if (place === null) {
      yield ''
      continue
    }
    // Added tokens before a long stretch get a slice of their own: each would cost a search through the stretch.
    if (isCut && start < low && place.start - low > SLICE_CHARACTERS) {
      yield text.slice(start, low)
      start = low
    }
    if (atWords)
      for (const end of wordCuts(text, { start, low, until: place.start, least, keepsWords })) {
        yield text.slice(start, end)
        start = end
      }
    if (place.isCut)
      for (const end of [place.start, place.end]) {
        if (end - start < leastAtToken) continue
        yield text.slice(start, end)
        start = end
      }
    low = place.end
    isCut = place.isCut
  }
  if (start < text.length) yield text.slice(start)
}

interface Place {
  readonly start: number
  readonly end: number
  /** Whether the text may be cut before and after it, but not inside. */
  readonly isCut: boolean
}

interface Branch {
  readonly next: Map<number, Branch>
  /** The token that ends here. */
  token: AddedToken | null
}

/**
 * Finds the added tokens, which llama.cpp extracts before it tokenises the rest: longest token first, and each from
 * left to right.
 */
export class AddedTokens {
  readonly #root: Branch = { next: new Map(), token: null }
  readonly #first: RegExp | null

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens) {
      let branch = this.#root
      for (let at = 0; at < token.text.length; at++)
        branch = getOrMake<number, Branch>(branch.next, token.text.charCodeAt(at), () => ({
          next: new Map(),
          token: null,
        }))
      branch.token = token
    }
    const codes = [...this.#root.next.keys()].map((code) => `\\u${code.toString(16).padStart(4, '0')}`)
    this.#first = codes.length === 0 ? null : new RegExp(`[${codes.join('')}]`, 'g')
  }

  /** The places of added tokens, in order, and the end of the text; null from time to time during a long search. */
  *placesIn(text: string): Generator<Place | null, void, void> {
    let taken = 0
    let blanks = 0
    for (let at = this.#next(text, 0), told = 0; at < text.length; ) {
      const token = this.#longestAt(text, at)
      if (token === null) {
        if (at - told > SLICE_CHARACTERS) {
          yield null
          told = at
        }
        at = this.#next(text, at + 1)
        continue
      }
      const end = at + token.text.length
      const reach = this.#reach(text, at, token)
      if (blanks < reach) blanks = endOfBlanks(text, reach)
      // Text is not cut at blanks next to a token that removes them, even if the blanks are tokens themselves.
      const isCut = at >= taken && reach === end && !token.strips && this.#longestAt(text, blanks)?.strips !== true
      if (token.strips) taken = blanks
      yield { start: at, end: Math.max(reach, taken), isCut }
      told = reach
      at = this.#next(text, reach)
    }
    yield { start: text.length, end: text.length, isCut: false }
  }

  /**
   * The end of a token. If a longer token that begins inside it may win, the end of all overlapping tokens. No earlier
   * token overlaps it.
   */
  #reach(text: string, start: number, token: AddedToken): number {
    const end = start + token.text.length
    let reach = end
    let loses = false
    for (let at = start + 1; at < (loses ? reach : end); at++) {
      const other = this.#longestAt(text, at)
      if (other === null || at + other.text.length <= end) continue
      loses ||= other !== token && Buffer.byteLength(other.text) >= Buffer.byteLength(token.text)
      reach = Math.max(reach, at + other.text.length)
    }
    return loses ? reach : end
  }

  #next(text: string, from: number): number {
    if (this.#first === null) return text.length
    this.#first.lastIndex = from
    return this.#first.exec(text)?.index ?? text.length
  }

  #longestAt(text: string, start: number): AddedToken | null {
    let longest: AddedToken | null = null
    let branch = this.#root.next.get(text.charCodeAt(start))
    for (let at = start + 1; branch !== undefined; at++) {
      longest = branch.token ?? longest
      branch = branch.next.get(text.charCodeAt(at))
    }
    return longest
  }
}

interface Stretch {
  /** Start of the slice. */
  readonly start: number
  /** Start of the text that may be cut. */
  readonly low: number
  /** End of the text. */
  readonly until: number
  readonly least: number
  readonly keepsWords: boolean
}

/** Cuts of a text without added tokens. */
function* wordCuts(text: string, { start, low, until, least, keepsWords }: Stretch): Generator<number, void, void> {
  for (let from = start; ; ) {
    const latest = Math.max(from + SLICE_CHARACTERS, low + CUT_CHARACTERS)
    const longest = from + (keepsWords && low <= from ? WORD_CHARACTERS : 2 * SLICE_CHARACTERS)
    let end = Math.max(from + least, low)
    while (end < latest && end < until && !isBetweenWords(text, end)) end++
    if (end >= latest && end < until) {
      const known = lastBoundary(text, Math.max(from, low, latest - CUT_CHARACTERS), latest)
      end = known ?? (keepsWords ? nextBoundary(text, latest, Math.min(longest, until)) : latest)
    }
    if (end >= until) {
      // Stretches that may not be cut may be close together.
      if (until <= longest || until <= low) return
      end = lastBoundary(text, low, until) ?? until
    }
    if (isWithinPair(text, end)) end--
    yield end
    from = end
  }
}

/** The last boundary after `earliest`, up to `latest`; null if there is none. */
function lastBoundary(text: string, earliest: number, latest: number): number | null {
  for (const isBoundary of [isBetweenWords, isBehindWord])
    for (let at = latest; at > earliest; at--) if (isBoundary(text, at)) return at
  return null
}

/** The next boundary, or the end. */
function nextBoundary(text: string, from: number, until: number): number {
  let at = from
  while (at < until && !isBetweenWords(text, at) && !isBehindWord(text, at)) at++
  return at
}

function isBetweenWords(text: string, at: number): boolean {
  return text[at] === ' ' && !isBlank(text.charCodeAt(at - 1)) && !isBlank(text.charCodeAt(at + 1))
}

/**
 * Whether a letter or digit ends there, and neither another one nor an apostrophe follows: some tokenisers treat an
 * apostrophe as part of a word.
 */
function isBehindWord(text: string, at: number): boolean {
  return /[\p{L}\p{N}]/u.test(text[at - 1]!) && /(?!['’a-z\d])[\p{P}!-~\n]/iu.test(text[at]!)
}

function endOfBlanks(text: string, from: number): number {
  let at = from
  while (at < text.length && isBlank(text.charCodeAt(at))) at++
  return at
}

function isBlank(code: number): boolean {
  return !(code > 0x20) || (code >= 0x7f && code <= 0xa0) || (code >= 0x2000 && code <= 0x206f) || code === 0x3000
}

function isWithinPair(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800
}

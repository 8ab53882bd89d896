/**
 * A stroke font for ASCII, so that labels are legible on a machine without fonts.
 *
 * A glyph is its width and an SVG path. Capitals reach from 0 to the baseline at 6, lower-case letters begin at 2, and
 * descenders end at 8.
 */
const ROUND = 'M4 4A2 2 0 1 1 0 4A2 2 0 1 1 4 4'
const GLYPHS: Readonly<Record<string, readonly [width: number, path: string]>> = {
  ' ': [1, ''],
  '!': [0, 'M0 0V4M0 6h.01'],
  '"': [1.5, 'M0 0V1.7M1.5 0V1.7'],
  '#': [4, 'M1.3 0L.7 6M3.3 0L2.7 6M0 2H4M0 4H4'],
  $: [4, 'M4 1.3Q3.5 .4 2 .4Q.2 .4 .2 1.7Q.2 2.9 2 3Q4 3.1 4 4.3Q4 5.6 2 5.6Q.5 5.6 0 4.7M2 -.5V6.5'],
  '%': [5, 'M4.6 0L.4 6M1 0Q2 0 2 1.2Q2 2.4 1 2.4Q0 2.4 0 1.2Q0 0 1 0M4 3.6Q5 3.6 5 4.8Q5 6 4 6Q3 6 3 4.8Q3 3.6 4 3.6'],
  '&': [4.6, 'M4.6 6L.9 1.8Q.5 0 1.9 0Q3.4 0 3 1.6Q2.8 2.3 1.4 3Q0 3.6 0 4.6Q0 6 1.8 6Q4 6 4.4 3.2'],
  "'": [0, 'M0 0V1.7'],
  '(': [1.4, 'M1.4 -.5Q-1.4 3 1.4 7'],
  ')': [1.4, 'M0 -.5Q2.8 3 0 7'],
  '*': [3, 'M1.5 .5V3.5M.2 1.2L2.8 2.8M2.8 1.2L.2 2.8'],
  '+': [4, 'M2 1.2V5.2M0 3.2H4'],
  ',': [0.6, 'M.6 5.7V6L0 7.2'],
  '-': [2.4, 'M0 3.4H2.4'],
  '.': [0, 'M0 6h.01'],
  '/': [3, 'M3 -.5L0 6.5'],
  0: [4, 'M2 0Q4 0 4 3Q4 6 2 6Q0 6 0 3Q0 0 2 0'],
  1: [1.6, 'M0 1.2L1.6 0V6'],
  2: [4, 'M.2 1.4Q.4 0 2 0Q3.8 0 3.8 1.6Q3.8 2.6 2.8 3.5L0 6H4'],
  3: [4, 'M.3 .8Q.8 0 2 0Q3.7 0 3.7 1.5Q3.7 2.8 1.7 2.8Q4 2.8 4 4.4Q4 6 2 6Q.6 6 0 5'],
  4: [4, 'M3 6V0L0 4.2H4'],
  5: [4, 'M3.6 0H.6L.3 2.7Q1 2.2 2 2.2Q4 2.2 4 4.1Q4 6 2 6Q.6 6 0 5'],
  6: [4, 'M3.5 .6Q3 0 2.2 0Q0 0 0 3.6Q0 6 2 6Q4 6 4 4.2Q4 2.5 2.1 2.5Q.6 2.5 0 3.8'],
  7: [4, 'M0 0H4L1.4 6'],
  8: [4, 'M2 0Q3.7 0 3.7 1.4Q3.7 2.8 2 2.8Q.3 2.8 .3 1.4Q.3 0 2 0M2 2.8Q4 2.8 4 4.4Q4 6 2 6Q0 6 0 4.4Q0 2.8 2 2.8'],
  9: [4, 'M.5 5.4Q1 6 1.8 6Q4 6 4 2.4Q4 0 2 0Q0 0 0 1.8Q0 3.5 1.9 3.5Q3.4 3.5 4 2.2'],
  ':': [0, 'M0 2.6h.01M0 6h.01'],
  ';': [0.6, 'M.6 2.6h.01M.6 5.7V6L0 7.2'],
  '<': [3.4, 'M3.4 1.2L0 3.2L3.4 5.2'],
  '=': [4, 'M0 2.4H4M0 4.2H4'],
  '>': [3.4, 'M0 1.2L3.4 3.2L0 5.2'],
  '?': [3.4, 'M0 1.3Q.2 0 1.7 0Q3.4 0 3.4 1.5Q3.4 2.4 2.4 3Q1.7 3.4 1.7 4.2M1.7 6h.01'],
  '@': [
    5.4,
    'M3.9 2.2V3.6Q3.9 4.4 4.6 4.4Q5.4 4.4 5.4 3Q5.4 0 2.7 0Q0 0 0 3Q0 6 2.7 6Q3.8 6 4.6 5.4M3.9 3A1.2 1.2 0 1 0 3.9 3.3',
  ],
  A: [4.4, 'M0 6L2.2 0L4.4 6M.8 4H3.6'],
  B: [4, 'M0 0V6H2.4Q4 6 4 4.4Q4 3 2.4 3H0M0 0H2.2Q3.6 0 3.6 1.5Q3.6 3 2.2 3'],
  C: [4.3, 'M4.3 1.2Q3.6 0 2.4 0Q0 0 0 3Q0 6 2.4 6Q3.6 6 4.3 4.8'],
  D: [4.4, 'M0 0V6H1.8Q4.4 6 4.4 3Q4.4 0 1.8 0Z'],
  E: [3.6, 'M3.6 0H0V6H3.6M0 3H3'],
  F: [3.6, 'M3.6 0H0V6M0 3H3'],
  G: [4.4, 'M4.3 1.2Q3.6 0 2.4 0Q0 0 0 3Q0 6 2.4 6Q4.4 6 4.4 3.4H2.6'],
  H: [4.2, 'M0 0V6M4.2 0V6M0 3H4.2'],
  I: [2, 'M0 0H2M1 0V6M0 6H2'],
  J: [2.8, 'M2.8 0V4.3Q2.8 6 1.4 6Q0 6 0 4.5'],
  K: [4.2, 'M0 0V6M4 0L0 3.7M1.4 2.5L4.2 6'],
  L: [3.4, 'M0 0V6H3.4'],
  M: [5, 'M0 6V0L2.5 4L5 0V6'],
  N: [4.2, 'M0 6V0L4.2 6V0'],
  O: [4.8, 'M2.4 0Q4.8 0 4.8 3Q4.8 6 2.4 6Q0 6 0 3Q0 0 2.4 0'],
  P: [4, 'M0 6V0H2.3Q4 0 4 1.7Q4 3.4 2.3 3.4H0'],
  Q: [4.8, 'M2.4 0Q4.8 0 4.8 3Q4.8 6 2.4 6Q0 6 0 3Q0 0 2.4 0M3 4.4L4.8 6.4'],
  R: [4, 'M0 6V0H2.3Q4 0 4 1.7Q4 3.4 2.3 3.4H0M2 3.4L4 6'],
  S: [4.2, 'M4 1.1Q3.5 0 2 0Q.2 0 .2 1.5Q.2 2.9 2.1 3Q4.2 3.1 4.2 4.5Q4.2 6 2.1 6Q.5 6 0 4.8'],
  T: [4.4, 'M0 0H4.4M2.2 0V6'],
  U: [4.2, 'M0 0V4Q0 6 2.1 6Q4.2 6 4.2 4V0'],
  V: [4.4, 'M0 0L2.2 6L4.4 0'],
  W: [6, 'M0 0L1.5 6L3 1L4.5 6L6 0'],
  X: [4.2, 'M0 0L4.2 6M4.2 0L0 6'],
  Y: [4.2, 'M0 0L2.1 3L4.2 0M2.1 3V6'],
  Z: [4, 'M0 0H4L0 6H4'],
  '[': [1.4, 'M1.4 -.5H0V7H1.4'],
  '\\': [3, 'M0 -.5L3 6.5'],
  ']': [1.4, 'M0 -.5H1.4V7H0'],
  '^': [3, 'M0 2L1.5 0L3 2'],
  _: [4, 'M0 7H4'],
  '`': [1, 'M0 0L1 1.2'],
  a: [4, `${ROUND}M4 2V6`],
  b: [4, `${ROUND}M0 0V6`],
  c: [3.5, 'M3.5 2.7A2 2 0 1 0 3.5 5.3'],
  d: [4, `${ROUND}M4 0V6`],
  e: [4, 'M0 4H4A2 2 0 1 0 3.5 5.3'],
  f: [2.8, 'M2.8 0Q1 -.2 1 2V6M0 2H2.6'],
  g: [4, `${ROUND}M4 2V6Q4 8 2 8Q.8 8 .3 7.3`],
  h: [4, 'M0 0V6M0 4Q0 2 2 2Q4 2 4 4V6'],
  i: [0, 'M0 2V6M0 0h.01'],
  j: [1, 'M1 2V6.5Q1 8 0 8M1 0h.01'],
  k: [3.6, 'M0 0V6M3.4 2L0 4.4M1.3 3.5L3.6 6'],
  l: [0, 'M0 0V6'],
  m: [6, 'M0 2V6M0 3.5Q0 2 1.5 2Q3 2 3 3.5V6M3 3.5Q3 2 4.5 2Q6 2 6 3.5V6'],
  n: [4, 'M0 2V6M0 4Q0 2 2 2Q4 2 4 4V6'],
  o: [4, ROUND],
  p: [4, `${ROUND}M0 2V8`],
  q: [4, `${ROUND}M4 2V8`],
  r: [2.4, 'M0 2V6M0 4Q0 2 2.4 2'],
  s: [3.7, 'M3.5 2.6Q3 2 1.8 2Q.2 2 .2 3Q.2 3.9 1.8 4Q3.7 4.1 3.7 5Q3.7 6 1.8 6Q.5 6 0 5.3'],
  t: [2.5, 'M1 .5V4.7Q1 6 2.5 6M0 2H2.4'],
  u: [4, 'M0 2V4Q0 6 2 6Q4 6 4 4M4 2V6'],
  v: [3.6, 'M0 2L1.8 6L3.6 2'],
  w: [5.6, 'M0 2L1.4 6L2.8 2L4.2 6L5.6 2'],
  x: [3.5, 'M0 2L3.5 6M3.5 2L0 6'],
  y: [3.8, 'M0 2L1.9 6M3.8 2L1.9 6Q1 8 0 8'],
  z: [3.5, 'M0 2H3.5L0 6H3.5'],
  '{': [1.8, 'M1.8 -.5Q.8 -.5 .8 1V2.2Q.8 3.2 0 3.2Q.8 3.2 .8 4.2V5.5Q.8 7 1.8 7'],
  '|': [0, 'M0 -.5V7'],
  '}': [1.8, 'M0 -.5Q1 -.5 1 1V2.2Q1 3.2 1.8 3.2Q1 3.2 1 4.2V5.5Q1 7 0 7'],
  '~': [4, 'M0 3.6Q1 2.4 2 3.3Q3 4.2 4 3'],
}
/** For characters that the font lacks. */
const EMPTY_BOX = [3.5, 'M0 0H3.5V6H0Z'] as const

const SPACE = 1.9
const CAPITAL_HEIGHT = 6

export interface StrokedText {
  readonly width: number
  /** An SVG element, with the top of its capitals at y = 0 and its left end at x = 0. */
  readonly svg: string
}

/** Whether the font has every letter of the text, ignoring accents. */
export function canStroke(text: string): boolean {
  return [...plain(text)].every((letter) => Object.hasOwn(GLYPHS, letter))
}

/** @param height of a capital, in pixels. */
export function strokeText(text: string, height: number, colour: string): StrokedText {
  const scale = height / CAPITAL_HEIGHT
  const paths: string[] = []
  let x = 0
  for (const letter of plain(text)) {
    const [width, path] = Object.hasOwn(GLYPHS, letter) ? GLYPHS[letter]! : EMPTY_BOX
    if (path !== '') paths.push(`<path transform="translate(${x.toFixed(2)})" d="${path}"/>`)
    x += width + SPACE
  }
  const svg = `<g transform="scale(${scale.toFixed(3)})" fill="none" stroke="${colour}" stroke-width=".85" stroke-linecap="round" stroke-linejoin="round">${paths.join('')}</g>`
  return { width: Math.max(0, x - SPACE) * scale, svg }
}

/** Removes accents, which would be illegible in strokes this small. */
function plain(text: string): string {
  return text.normalize('NFKD').replace(/\p{M}/gu, '').replaceAll('ß', 'ss')
}

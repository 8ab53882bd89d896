import fc from 'fast-check'

/** Settings of a fuzz run: `FUZZ_RUNS` sets the number of requests. The seed is fixed to keep CI deterministic. */
export const FUZZ = { numRuns: Number(process.env.FUZZ_RUNS ?? 150), seed: Number(process.env.FUZZ_SEED ?? 20_261_121) }

const HOSTILE_KEYS = ['toString', '__proto__', 'constructor', 'length', 'prototype', 'then', 'hasOwnProperty']

/** Any JSON value. */
const junk: fc.Arbitrary<unknown> = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(
    null,
    '',
    ' ',
    0,
    -1,
    1.5,
    1e308,
    true,
    [],
    {},
    [[]],
    [null],
    '\ud800',
    '\u0000',
    'x'.repeat(300),
  ),
  fc.constantFrom(...HOSTILE_KEYS).map((key) => JSON.parse(`{"${key}": {"${key}": 1}}`) as unknown),
)

type Path = readonly (string | number)[]

function pathsIn(value: unknown): Path[] {
  if (typeof value !== 'object' || value === null) return [[]]
  const inner = Object.entries(value).flatMap(([key, child]) =>
    pathsIn(child).map((path): Path => [Array.isArray(value) ? Number(key) : key, ...path]),
  )
  return [[], ...inner]
}

function withChange(value: unknown, path: Path, change: (old: unknown) => unknown): unknown {
  const [key, ...rest] = path
  if (key === undefined || typeof value !== 'object' || value === null) return change(value)
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Record<string | number, unknown>
  copy[key] = withChange(copy[key], rest, change)
  return copy
}

/** The text of a valid request body with random damage, sometimes no longer valid JSON. */
export function damaged(bodies: readonly object[]): fc.Arbitrary<string> {
  const changed = fc.constantFrom(...bodies).chain((body) => {
    const paths = pathsIn(body)
    const change = fc.oneof(
      junk.map((value) => () => value),
      fc.constant(() => undefined),
      fc.integer({ min: 2, max: 300 }).map((times) => (old: unknown) => Array(times).fill(old)),
      fc.tuple(fc.constantFrom(...HOSTILE_KEYS), junk).map(([key, value]) => (old: unknown) => ({
        ...Object(old),
        [key]: value,
      })),
    )
    return fc
      .array(fc.tuple(fc.constantFrom(...paths), change), { minLength: 1, maxLength: 3 })
      .map((changes) => changes.reduce((value, [path, to]) => withChange(value, path, to), body as unknown))
  })
  const text = changed.map((value) => JSON.stringify(value) ?? '')
  const torn = fc.tuple(text, fc.nat(2000)).map(([whole, at]) => whole.slice(0, at))
  return fc.oneof(
    { weight: 12, arbitrary: text },
    { weight: 1, arbitrary: torn },
    { weight: 1, arbitrary: junk.map((value) => JSON.stringify(value)) },
  )
}

/** Stands for a value that `inflated` replaces. */
const PLACE = '@place@'
const LARGEST = 19 * 2 ** 20

/** The text of a request body in which one value is as deep or as long as the body limit allows. */
export function inflated(bodies: readonly object[]): fc.Arbitrary<string> {
  const deep = fc
    .tuple(fc.integer({ min: 100, max: 100_000 }), fc.constantFrom(['[', ']'], ['{"a":', '}'], ['[{"items":', '}]']))
    .map(([levels, [open, close]]) => `${open!.repeat(levels)}1${close!.repeat(levels)}`)
  const item = fc.constantFrom('1', '{}', '[]', '""', '{"type":"text","text":"a"}', '{"role":"user","content":"a"}')
  // Most are short: a long one takes as long as a thousand others.
  const bytes = fc.oneof(
    { weight: 9, arbitrary: fc.integer({ min: 1000, max: 300_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 300_000, max: LARGEST }) },
  )
  const long = fc.tuple(item, bytes).map(([item, size]) => `[${`${item},`.repeat(size / (item.length + 1))}${item}]`)
  const text = fc
    .tuple(fc.constantFrom('a', ' ', 'the ', '\\n', '<tool_call>', '(a?)', '\\ud83d\\ude00'), bytes)
    .map(([piece, size]) => `"${piece.repeat(size / piece.length)}"`)
  const url = bytes.map((size) => `"data:image/png;base64,${'A'.repeat(size)}"`)
  return fc
    .constantFrom(...bodies)
    .chain((body) => fc.tuple(fc.constant(body), fc.constantFrom(...pathsIn(body)), fc.oneof(deep, long, text, url)))
    .map(([body, path, value]) =>
      JSON.stringify(withChange(body, path, () => PLACE)).replace(`"${PLACE}"`, () => value),
    )
}

import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { compileDeviceChoice, type DeviceOnHost } from '../../../../../test/support/device-choice.ts'
import { hasAvx2 } from '../../../../../test/support/kernels-alone.ts'
import { type Ask, chooseFrom, LIKELIEST } from '../choice.ts'
import { PLAIN_OPERATIONS } from '../logits-operations.ts'
import { DeviceRows } from './device-rows.ts'

let device: DeviceOnHost

beforeAll(async () => {
  device = await compileDeviceChoice()
})

const { NaN: NONE, NEGATIVE_INFINITY, POSITIVE_INFINITY } = Number
const oddLogits = fc.constantFrom(-2, -0, 0, 1, 1.5, 1e-40, NONE, NEGATIVE_INFINITY, POSITIVE_INFINITY)
const plainLogits = fc.oneof(
  fc.float({ min: -20, max: 20, noNaN: true }),
  fc.float({ min: -1000, max: 1000, noNaN: true }),
  fc.constantFrom(3, NEGATIVE_INFINITY),
)
const closeLogits = fc.float({ min: 0, max: 2, noNaN: true })

const asks = fc.record({
  row: fc.nat(3),
  masked: fc.option(fc.array(fc.nat(400), { maxLength: 60 }), { nil: null }),
  penalties: fc.array(fc.tuple(fc.nat(400), fc.double({ min: -2, max: 2, noNaN: true })), { maxLength: 8 }),
  temperature: fc.constantFrom(0, 0, 0.01, 0.7, 1, 2),
  topK: fc.constantFrom(0, 0, 1, 4, 20, 64, 65),
  topP: fc.constantFrom(1, 0.9, 0.5, 0.01),
  drawSeed: fc.nat(2 ** 32 - 1),
  ranked: fc.constantFrom(null, null, 0, 1, 5, 20),
})
const cases = fc
  .tuple(fc.integer({ min: 1, max: 400 }), fc.constantFrom(oddLogits, plainLogits, plainLogits, closeLogits))
  .chain(([tokens, logit]) =>
    fc.record({
      rows: fc.array(fc.array(logit, { minLength: tokens, maxLength: tokens }), { minLength: 4, maxLength: 4 }),
      asks: fc.array(asks, { minLength: 1, maxLength: 4 }),
    }),
  )

test.skipIf(!hasAvx2())('a device chooses what the CPU chooses, or leaves it to the CPU', () => {
  let answered = 0
  let left = 0
  const check = ({ rows, asks }: typeof cases extends fc.Arbitrary<infer Case> ? Case : never) => {
    const tokens = rows[0]!.length
    const logits = Float32Array.from(rows.flat())
    const fetched = new Float32Array(logits.length)
    const deviceRows = new DeviceRows(device.choice, tokens)
    // The rows of the batch are not those with logits.
    const outputs = rows.map((_, at) => 3 * at + 1)
    deviceRows.keep(outputs, () => {
      expect(device.keeps('result_norm', logits, fetched, logits.byteLength)).toBe(false)
      expect(device.keeps('result_output', logits, fetched, logits.byteLength)).toBe(true)
    })
    expect(deviceRows.areKept).toBe(true)
    const rowAsks = new Map<number, Ask>()
    for (const { row, masked, penalties, ...ask } of asks) {
      const allowed = masked === null ? undefined : new Int32Array(Math.ceil(tokens / 32))
      for (const token of masked ?? []) if (token < tokens) allowed![token >> 5]! |= 1 << (token & 31)
      if (allowed?.every((word) => word === 0)) allowed[0] = 1
      rowAsks.set(outputs[row]!, {
        ...ask,
        allowed,
        penalties: new Map(penalties.map(([at, by]) => [at % tokens, by])),
      })
    }
    deviceRows.ask(Array.from(rowAsks, ([row, ask]) => ({ row, ask })))
    for (const [row, ask] of rowAsks) {
      const place = outputs.indexOf(row)
      const own = logits.slice(place * tokens, (place + 1) * tokens)
      const chosen = deviceRows.chosen(row, ask)
      expect(deviceRows.chosen(row, { ...ask, ranked: 7 })).toBe(null)
      if (chosen === null) {
        left++
        continue
      }
      answered++
      const expected = chooseFrom(PLAIN_OPERATIONS, own, ask)
      expect(chosen.token).toBe(expected.token)
      expect(chosen.ranking === null).toBe(expected.ranking === null)
      if (chosen.ranking === null || expected.ranking === null) continue
      expect(chosen.ranking.top.map(({ token }) => token)).toEqual(expected.ranking.top.map(({ token }) => token))
      expectClose(chosen.ranking.logProb, expected.ranking.logProb)
      for (const [at, { logProb }] of chosen.ranking.top.entries())
        expectClose(logProb, expected.ranking.top[at]!.logProb)
    }
    const wanted = new Map(outputs.map((row) => [row, new Set([0, tokens - 1])]))
    for (const [row, { logits: some, logSum }] of deviceRows.read(wanted)) {
      const own = logits.subarray(outputs.indexOf(row) * tokens).subarray(0, tokens)
      expect([...some]).toEqual([...new Set([0, tokens - 1])].map((token) => [token, own[token]!]))
      expectClose(logSum, PLAIN_OPERATIONS.logSumExp(own))
    }
    // One row alone.
    deviceRows.fetch(outputs[1]!)
    expect(fetched.subarray(tokens, 2 * tokens)).toEqual(logits.subarray(tokens, 2 * tokens))
    expect(fetched.subarray(0, tokens).every((logit) => logit === 0)).toBe(true)
    deviceRows.close()
  }
  fc.assert(fc.property(cases, check), { numRuns: 100 })
  // Rows of NaN, long lists, and nuclei that end between equal logits.
  expect(left).toBeLessThan(answered)
})

test.skipIf(!hasAvx2())('logits stay on the device only for a waiting caller', () => {
  const logits = new Float32Array(64)
  const [one, other] = [new DeviceRows(device.choice, 32), new DeviceRows(device.choice, 32)]
  const fetch = () => device.keeps('result_output', logits, logits, logits.byteLength)
  expect(fetch()).toBe(false)
  one.keep([0, 1], () => expect(fetch()).toBe(true))
  other.keep([0, 1, 2], () => expect(fetch()).toBe(false))
  expect([one.areKept, other.areKept]).toEqual([true, false])
  one.keep([], () => expect(fetch()).toBe(false))
  expect(one.areKept).toBe(false)
  one.keep([0, 1], () => {})
  expect(one.areKept).toBe(false)
  one.ask([{ row: 0, ask: LIKELIEST }])
  expect(one.chosen(0, LIKELIEST)).toBe(null)
  expect(fetch()).toBe(false)
  one.close()
  other.close()
})

function expectClose(found: number, expected: number): void {
  if (Number.isFinite(expected))
    expect(Math.abs(found - expected)).toBeLessThan(1e-12 * Math.max(1, Math.abs(expected)))
  else expect(found).toBe(expected)
}

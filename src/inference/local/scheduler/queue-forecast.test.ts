import { expect, test } from 'vitest'
import { BatchSplitter } from './batch/batch-splitter.ts'
import { type Ahead, type Load, QueueForecast } from './queue-forecast.ts'

/** Four at a time, a token each in 10 ms. */
const forecast = () =>
  new QueueForecast(
    new BatchSplitter(
      [
        { rows: 1, ms: 10 },
        { rows: 4, ms: 10 },
      ],
      4,
      64,
    ),
  )
const chats = (count: number, mostTokens: number, mediaTokens = 0): Ahead[] =>
  Array.from({ length: count }, () => ({ promptTokens: 0, mediaTokens, mostTokens, freesPlace: true }))
/** Cut at their limits, like answers of a model that never ends. */
function limited(): QueueForecast {
  const forecasts = forecast()
  for (let i = 0; i < 1000; i++) forecasts.ended(100, false)
  return forecasts
}
const load = (): Load => ({ running: chats(4, 20), waiting: chats(8, 20) })

test('places are reserved one after another, each a quarter later than it should become free', () => {
  const forecasts = limited()
  const times = Array.from({ length: 12 }, () => forecasts.reserveRetryAfter(load, 0))
  expect(times.slice(0, 4).map(Math.round)).toEqual([250, 250, 250, 250])
  expect(times.slice(4, 8).map(Math.round)).toEqual([500, 500, 500, 500])
  expect(times.slice(8, 12).map(Math.round)).toEqual([750, 750, 750, 750])
})

test('a reservation ends at its time', () => {
  const forecasts = limited()
  for (let i = 0; i < 12; i++) forecasts.reserveRetryAfter(load, 0)
  expect(forecasts.reserveRetryAfter(load, 300)).toBeCloseTo(750)
  expect(forecasts.reserveRetryAfter(load, 5000)).toBeCloseTo(250)
})

test('a slower machine makes all requests wait longer', () => {
  const forecasts = limited()
  for (let i = 0; i < 2000; i++) forecasts.stepped(30, 4, 0)
  expect(forecasts.reserveRetryAfter(load, 0)).toBeCloseTo(750, -1)
})

test('pictures are encoded one after another, which slows nothing else down', () => {
  const forecasts = limited()
  // Ten turns for each of 100 tokens, none of which computes a token.
  for (let i = 0; i < 100; i++) encode(forecasts, 10, 100)
  expect(forecasts.reserveRetryAfter(load, 0)).toBeCloseTo(250)
  // The four that run have their pictures.
  const pictures = { running: chats(4, 20), waiting: chats(8, 20, 50) }
  const times = Array.from({ length: 4 }, () => forecasts.reserveRetryAfter(() => pictures, 1000))
  expect(times.map(Math.round)).toEqual([375, 500, 625, 750])
  // Clients that give up while theirs are encoded make no others seem slow.
  for (let i = 0; i < 100; i++) encode(forecasts, 10_000, 0)
  encode(forecasts, 10, 100)
  expect(forecasts.reserveRetryAfter(() => pictures, 2000)).toBeCloseTo(375)
})

/** Encodes a picture in turns of 20 ms. @param tokens 0 for one that is never complete. */
function encode(forecasts: QueueForecast, turns: number, tokens: number): void {
  const media = {}
  for (let turn = 1; turn <= turns; turn++) forecasts.encoded(media, 20, turn === turns ? tokens : 0)
}

test('answers that end by themselves free places one by one', () => {
  const forecasts = forecast()
  for (let i = 0; i < 1000; i++) forecasts.ended(50, true)
  const endless = { running: chats(4, 8000), waiting: chats(8, 8000) }
  const times = Array.from({ length: 40 }, () => forecasts.reserveRetryAfter(() => endless, 0))
  // Four at a time, 50 tokens each: a place every 125 ms.
  expect(times.at(-1)! / 40).toBeGreaterThan(100)
  expect(times.at(-1)! / 40).toBeLessThan(200)
  expect(times[0]).toBeLessThan(300)
})

test('times for very many refusals continue at the same rate', () => {
  const forecasts = limited()
  let last = 0
  for (let i = 0; i < 4000; i++) {
    const ms = forecasts.reserveRetryAfter(load, 0)
    expect(ms).toBeGreaterThanOrEqual(last)
    last = ms
  }
  expect(last).toBeCloseTo(4000 * 62.5, -4)
})

import { expect, test } from 'vitest'
import { LagMeter } from './lag-meter.ts'

const moment = (at: number) => ({ at, time: 1_000_000 + at })

test('fewer than half of the looks that were due are a lag, until a window has enough of them', () => {
  const meter = new LagMeter(1_000)
  for (let at = 0; at < 1_000; at += 100) meter.missed(moment(at), 100)
  meter.made(moment(500))
  expect(meter.lag).toBeNull()
  meter.made(moment(1_000))
  expect(meter.lag).toEqual({ from: 1_000_000, lookedFps: 2 })
  for (let at = 1_100; at <= 2_000; at += 100) meter.made(moment(at))
  expect(meter.lag).toBeNull()
})

test('of frames that come before the next look would be due, one counts', () => {
  const meter = new LagMeter(1_000)
  for (let at = 0; at <= 1_000; at += 10) {
    if (at % 250 === 0) meter.made(moment(at))
    meter.missed(moment(at), 250)
  }
  expect(meter.lag).toBeNull()
})

test('a time without frames is no lag', () => {
  const meter = new LagMeter(1_000)
  meter.made(moment(0))
  meter.made(moment(60_000))
  expect(meter.lag).toBeNull()
})

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { machineSpeed } from './machine-speed.ts'

let dataDirectory = ''
beforeEach(async () => {
  dataDirectory = await mkdtemp(join(tmpdir(), 'lookout-machine-speed-'))
})
afterEach(() => rm(dataDirectory, { recursive: true, force: true }))

const speedOf = (isBusy: boolean, onMeasure?: () => void, directory = dataDirectory) =>
  machineSpeed({ dataDirectory: directory, backend: 'cpu', isBusy: () => isBusy, ...(onMeasure && { onMeasure }) })
const stored = () => join(dataDirectory, 'machine-speed.json')

test('measures once for all simultaneous calls, and keeps the result until the machine changes', async () => {
  const onMeasure = vi.fn()
  const [speed, again] = await Promise.all([speedOf(false, onMeasure), speedOf(false, onMeasure)])
  expect(onMeasure).toHaveBeenCalledTimes(1)
  expect(again).toBe(speed)
  // From a single-board computer to a large server.
  expect(speed!.bytesPerSecond).toBeGreaterThan(1e8)
  expect(speed!.bytesPerSecond).toBeLessThan(1e13)
  expect(speed!.multiplyAddsPerSecond).toBeGreaterThan(1e9)
  expect(speed!.multiplyAddsPerSecond).toBeLessThan(1e15)
  const kept = JSON.parse(await readFile(stored(), 'utf8'))
  expect(kept.speed).toEqual(speed)

  const other = { bytesPerSecond: 1, multiplyAddsPerSecond: 2 }
  await writeFile(stored(), JSON.stringify({ ...kept, speed: other }))
  expect(await speedOf(false)).toEqual(other)
  await writeFile(stored(), JSON.stringify({ machine: { ...kept.machine, cores: 1000 }, speed: other }))
  expect(await speedOf(false)).toEqual(speed)
  await writeFile(stored(), '{')
  expect(await speedOf(false)).toEqual(speed)
})

/** The first test measures. */
const measure = async () => ({ bytesPerSecond: 3, multiplyAddsPerSecond: 4 })

test('a measurement on a busy machine says so, is not stored, and does not last', async () => {
  const options = { dataDirectory, backend: 'cpu', measure } as const
  const busy = () => machineSpeed({ ...options, isBusy: () => true })
  const speed = await busy()
  expect(speed).toMatchObject({ bytesPerSecond: expect.any(Number), isBusy: true })
  expect(await busy()).toBe(speed)
  await expect(readFile(stored())).rejects.toThrow('ENOENT')
})

test('what a busy machine did is forgotten after a while', async () => {
  const options = { dataDirectory, backend: 'cpu', busyMs: 0, measure } as const
  expect(await machineSpeed({ ...options, isBusy: () => true })).toHaveProperty('isBusy')
  const speed = await machineSpeed({ ...options, isBusy: () => false })
  expect(JSON.parse(await readFile(stored(), 'utf8')).speed).toEqual(speed)
})

test('without room for the model, the speed is unknown', async () => {
  vi.stubEnv('TMPDIR', join(dataDirectory, 'missing'))
  expect(await speedOf(false)).toBeNull()
})

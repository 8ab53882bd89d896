import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Finding, isIll, overall } from '../../src/doctor/finding.ts'
import type { Engine } from '../../src/inference/contract/engine.ts'
import { locateNativeLibraries } from '../../src/inference/local/native/native-paths.ts'
import { isLocal, loadCard, type ModelCard, type ServedId } from '../../src/models/card.ts'
import { outcomeOf, startLookout } from '../support/command-line.ts'
import { findingsOf, textOf, verdictsOf } from '../support/examination.ts'
import { shippedCard, startShippedEngine } from '../support/shipped-model.ts'

/** What a report says first, of this machine. */
const INSTALLATION = ['platform package', 'kernels', 'encoder', 'FFmpeg', 'sandbox']

/** `lookout doctor`, with the shipped weights, and their card turned wrong. */
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-doctor-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('the command', () => {
  const doctor = (...args: readonly string[]) =>
    outcomeOf(startLookout(['doctor', ...args], { LOOKOUT_DATA_DIR: folder, LOOKOUT_MODEL_CARD: shippedCard() }))

  test('finds the shipped model healthy', async () => {
    const { code, stdout, stderr } = await doctor('service-mk1.5', '--images', '6', '--json')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const report = JSON.parse(stdout) as { model: string; ok: boolean; overall: string; findings: Finding[] }
    expect(report).toMatchObject({
      model: 'service-mk1.5',
      card: shippedCard(),
      ok: true,
      overall: expect.stringMatching(/^The model does what its card promises\./),
    })
    const isHere = isLocal(await loadCard(shippedCard()))
    const numbers = (check: string) => report.findings.find((one) => one.check === check)!.numbers!
    const isOurs = isHere && locateNativeLibraries().kernels !== null
    const isInvariant = isOurs && (numbers('device').devices as readonly object[]).length === 0
    const ofInstallation = report.findings.slice(0, INSTALLATION.length)
    expect(ofInstallation.map(({ check }) => check)).toEqual(INSTALLATION)
    expect(isIll(ofInstallation)).toBe(false)
    expect(verdictsOf(report.findings.slice(INSTALLATION.length))).toEqual({
      template: 'ok',
      images: 'ok',
      device: isHere ? 'measured' : 'skipped',
      coordinates: 'ok',
      'coordinates in plain words': 'measured',
      'forced call': 'ok',
      'chosen call': 'ok',
      thinking: 'ok',
      'not thinking': 'ok',
      'JSON schema': 'ok',
      'same answers': isInvariant ? 'ok' : 'measured',
      speed: 'measured',
    })
    expect(numbers('coordinates')).toMatchObject({
      verdict: 'fits',
      answers: 6,
      best: { space: '0..1000', order: 'x first', form: 'corners' },
    })
    expect((numbers('coordinates').best as { error: number }).error).toBeLessThan(0.5)
    const { memoryBytes, encoderMs, ...speeds } = numbers('speed')
    for (const [name, value] of Object.entries(speeds)) expect(value, name).toBeGreaterThan(0)
    for (const value of [memoryBytes, encoderMs]) {
      if (isHere) expect(value).toBeGreaterThan(0)
      else expect(value).toBeNull()
    }
  })
})

describe('a card that does not fit its model', () => {
  let engine: Engine
  let shipped: ModelCard
  beforeAll(async () => {
    shipped = await loadCard(shippedCard())
    engine = await startShippedEngine()
  })
  afterAll(() => engine?.close())

  const examined = async (card: Partial<ModelCard>, served: Partial<ServedId>) =>
    findingsOf({ ...shipped, ...card, serves: [{ ...shipped.serves[0]!, ...served }] }, engine)

  test('a wrong dialect: coordinates fail, and the right dialect is named', async () => {
    const findings = await examined(
      { dialect: 'gemma' },
      { outputFormats: ['text', 'box'], capabilities: [], reasoning: false },
    )
    expect(verdictsOf(findings)).toMatchObject({
      images: 'ok',
      coordinates: 'failed',
      'tool calls': 'skipped',
      thinking: 'skipped',
    })
    expect(textOf(findings, 'coordinates')).toMatch(
      /In the dialect 'markup' the mean error is 0\.\d\d patches: set "dialect": "markup"/,
    )
    expect(isIll(findings)).toBe(true)
    expect(overall(findings)).toMatch(/^Boxes are .*: use another model for places, or see docs\/doctor\.md\.$/)
  })

  test('an index that it does not write: it names the wrong one of two images', async () => {
    const findings = await examined({ namesAssets: true }, { capabilities: [], reasoning: false })
    expect(verdictsOf(findings)).toMatchObject({ coordinates: 'ok', 'several images': 'failed' })
    expect(textOf(findings, 'several images')).toContain('remove "namesAssets" from the card')
  })

  test('no dialect: the one that fits is named', async () => {
    const findings = await examined({ dialect: null }, { outputFormats: ['text'], capabilities: [], reasoning: false })
    expect(verdictsOf(findings).coordinates).toBe('warning')
    expect(textOf(findings, 'coordinates')).toContain('set "dialect": "markup" in the card')
    expect(overall(findings)).toBe('The model does what its card promises. Warnings: coordinates.')
  })
})

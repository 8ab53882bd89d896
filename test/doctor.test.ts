import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { doctor as command } from '../src/commands/models/doctor.ts'
import type { Work } from '../src/inference/contract/work.ts'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { loadCard, type ModelCard, type ServedId } from '../src/models/card.ts'
import { outcomeHere, outcomeOf, startLookout } from './support/command-line.ts'
import { findingsOf, textOf, verdictsOf } from './support/examination.ts'
import { writeGguf } from './support/gguf-writer.ts'
import { CARD } from './support/local-engine.ts'
import { shippedCard, writeRandomModel } from './support/random-weights.ts'
import { tinyBert } from './support/tiny-models/embedding.ts'
import { qwen3Vl } from './support/tiny-models/qwen.ts'

/** `lookout doctor`, with random weights, and cards that promise too much. */
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-doctor-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('the command', () => {
  const doctor = (...args: readonly string[]) => outcomeHere(command, args, { LOOKOUT_DATA_DIR: folder })

  test('calls random weights noise, as a table', async () => {
    const card = await shippedCard()
    const served = { ...card.serves[0]!, reasoning: false }
    await writeRandomModel(folder, { ...card, serves: [served] }, 7)
    const { code, stdout } = await outcomeOf(
      startLookout(['doctor', folder, '--images', '6'], { LOOKOUT_DATA_DIR: folder }),
    )
    expect(code).toBe(1)
    const rows = stdout.split('\n').map((line) => line.split(/ {2,}/))
    const verdictOf = (check: string) => rows.find(([first]) => first === check)?.[1]
    expect(verdictOf('images')).toBe('noise')
    expect(verdictOf('coordinates')).toBe('noise')
    // Grammars and templates work with any weights.
    expect(verdictOf('template')).toBe('ok')
    expect(verdictOf('forced call')).toBe('ok')
    expect(verdictOf('speed')).toBe('measured')
    expect(rows.find(([first]) => first === 'device')).toEqual(['device', 'measured', 'Everything on the CPU.'])
    expect(stdout).toMatch(
      /^The model does not see: it names \d of 6 colours.* Boxes are .*: use another model for places/m,
    )
  })

  test('a sandbox that is turned off is a warning', async () => {
    // Little is asked of a model of embeddings.
    const model = join(folder, 'bert.gguf')
    await writeGguf(model, tinyBert('mean'))
    const settings = { LOOKOUT_DATA_DIR: folder, LOOKOUT_DECODER_SANDBOX: 'off' }
    const { stdout } = await outcomeHere(command, [model, '--json'], settings)
    const { findings } = JSON.parse(stdout) as { findings: { check: string; verdict: string }[] }
    expect(findings).toContainEqual(expect.objectContaining({ check: 'sandbox', verdict: 'warning' }))
  })

  describe('says what is missing of a model whose files hold no encoder', () => {
    const IMAGES =
      /take images, but the model's files hold no encoder for that\. Name the file of the encoder \(mmproj\)/
    test.each<[string, object | null, RegExp | null]>([
      ['its file is of a family that sees', null, IMAGES],
      [
        'its card names a family that hears',
        { family: 'ultravox' },
        /take sound, but the model's files hold no encoder/,
      ],
      [
        'its card has limits of audio',
        { audio: { tokensPerSecond: 12.5, maxTokens: 100 } },
        /has limits for 'audio', but/,
      ],
      [
        'its card names a projector that is none',
        { engine: { projector: 'language.gguf' } },
        /neither an image encoder nor/,
      ],
      ['its card says that it is for text', { serves: [{ modalities: ['text'] }] }, null],
    ])('where %s', async (_what, written, message) => {
      const own = await mkdtemp(join(folder, 'blind-'))
      await writeGguf(join(own, 'language.gguf'), qwen3Vl.language())
      const { engine = {}, ...card } = (written ?? {}) as { engine?: object }
      const file = join(own, 'card.json')
      await writeFile(file, JSON.stringify({ ...card, engine: { model: 'language.gguf', ...engine } }))
      const { code, stdout } = await doctor(
        written === null ? join(own, 'language.gguf') : file,
        '--images',
        '6',
        '--json',
      )
      const { findings, ok } = JSON.parse(stdout) as { ok: boolean; findings: { verdict: string; finding: string }[] }
      const failed = findings.filter(({ verdict }) => verdict === 'failed').map(({ finding }) => finding)
      expect(failed).toEqual(message === null ? [] : expect.arrayContaining([expect.stringMatching(message)]))
      expect({ code, ok }).toEqual(message === null ? { code: 0, ok: true } : { code: 1, ok: false })
    })
  })

  test.each([
    [['nobody'], "'nobody' is neither a file nor a model; the models are service-mk1.5, service-mk1"],
    [['--images', '5'], "--images: expected a number from 6 to 100, not '5'"],
    [['a', 'b'], "'b' is one argument too many; see --help"],
  ])('refuses %j in one line', async (args, message) => {
    expect(await doctor(...args)).toEqual({ code: 1, stdout: '', stderr: `lookout: ${message}\n` })
  })
})

describe('a card that does not fit its model', () => {
  let engine: LocalEngine
  let shipped: ModelCard
  beforeAll(async () => {
    shipped = await loadCard(CARD)
    engine = await LocalEngine.start(shipped)
  })
  afterAll(() => engine?.close())

  const examined = async (card: Partial<ModelCard>, served: Partial<ServedId>) =>
    findingsOf({ ...shipped, ...card, serves: [{ ...shipped.serves[0]!, ...served }] }, engine)

  test('text only: nothing is asked about images', async () => {
    const findings = await examined(
      {},
      {
        modalities: ['text'],
        outputFormats: ['text'],
        capabilities: ['response_format_json_schema'],
        reasoning: false,
      },
    )
    expect(verdictsOf(findings)).toMatchObject({
      template: 'ok',
      images: 'skipped',
      coordinates: 'skipped',
      speed: 'measured',
    })
    expect(textOf(findings, 'images')).toBe('the model is not served with images')
    expect(textOf(findings, 'speed')).not.toContain('image')
  })

  test('the time of the encoder is the one that the engine reports', async () => {
    const LONG_MS = 3_600_000
    const slow = new Proxy(engine, {
      get(target, name) {
        if (name === 'generate') {
          return ({ trace, ...work }: Work, signal: AbortSignal) => {
            const slower = trace && { ...trace, encoded: (ms: number) => trace.encoded(ms + LONG_MS) }
            return target.generate(slower ? { ...work, trace: slower } : work, signal)
          }
        }
        const value = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const findings = await findingsOf(shipped, slow, { checks: ['speed'] })
    const { encoderMs } = findings.find(({ check }) => check === 'speed')!.numbers!
    expect(encoderMs).toBeGreaterThanOrEqual(LONG_MS)
    expect(textOf(findings, 'speed')).toContain(`; encoder ${encoderMs} ms; `)
  })

  test('what the card may not promise is a finding', async () => {
    const { toolSyntax: _, ...card } = shipped
    expect(await findingsOf(card, engine)).toEqual([
      {
        check: 'card',
        verdict: 'failed',
        finding: expect.stringContaining("'tool_calling' needs 'toolSyntax' in the card"),
      },
    ])
  })
})

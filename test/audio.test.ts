import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { chat as chatCommand } from '../src/commands/chat.ts'
import type { AudioPart, PromptPart } from '../src/inference/contract/parts.ts'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { loadCard } from '../src/models/card.ts'
import { outcomeHere } from './support/command-line.ts'
import { type HearingCard, hearingCard } from './support/hearing-card.ts'
import {
  branch,
  chat,
  collect,
  countTokens,
  expectAllFreed,
  generate,
  run,
  trusted,
  untrusted,
} from './support/local-engine.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio, makeVideo, tone } from './support/video.ts'

const RATE = 16_000
const sound = (seconds: number, hertz = 440): AudioPart => ({
  type: 'audio',
  samples: Float32Array.from({ length: Math.round(seconds * RATE) }, (_, i) => tone(i / RATE, hertz)),
})

let card: HearingCard
beforeAll(async () => {
  card = await hearingCard()
})
afterAll(() => card?.remove())

describe('an engine with audio input', () => {
  let engine: LocalEngine
  beforeAll(async () => {
    engine = await LocalEngine.start(await loadCard(card.path), { seed: 1 })
  })
  afterAll(() => engine?.close())

  const asked = (...parts: PromptPart[]) => [
    trusted('<|im_start|>user\n'),
    ...parts,
    untrusted('What is this?'),
    trusted('<|im_end|>\n<|im_start|>assistant\n'),
  ]

  it('reports it', () => {
    expect(engine.info.modalities).toEqual({ image: true, audio: true })
  })

  it.each([
    [0.1, 1, 2],
    [1.7, 2, 22],
    [9.3, 10, 117],
    [20, 21, 250],
  ])('%s s of audio take %i one-second windows, and count %i tokens', async (seconds, started, counted) => {
    const silent = await countTokens(engine, asked())
    const prompt = asked(sound(seconds))
    const generation = await generate(engine, prompt, [branch({ maxTokens: 2 })])
    const [usage] = generation.prompts
    expect(usage).toMatchObject({ audioTokens: counted, imageTokens: 0 })
    // One token before the audio and one after it.
    expect(usage!.promptTokens - silent).toBe(13 * started + 2)
    expect(await countTokens(engine, prompt)).toBe(usage!.promptTokens)
    await collect(generation)
  })

  it('gives the same answer with and without the cache', async () => {
    const first = await run(engine, asked(sound(3)), branch())
    const again = await run(engine, asked(sound(3)), branch())
    expect(again.texts).toEqual(first.texts)
    expect(Object.values(first.texts)[0]!.length).toBeGreaterThan(0)
  })

  it('other audio is another prompt', async () => {
    const [low, high] = [asked(sound(3, 200)), asked(sound(3, 3000))]
    await run(engine, low, branch({ maxTokens: 1 }))
    const before = await engine.stats()
    await run(engine, high, branch({ maxTokens: 1 }))
    const after = await engine.stats()
    // Nothing is reused from the other audio.
    expect(after.prefilledTokens - before.prefilledTokens).toBeGreaterThan(13 * 3)
  })

  it('takes audio, images and text in one prompt, and many questions about it', async () => {
    const prefix = [trusted('<|im_start|>user\n'), sound(2), ...chat.slice(1, 2), sound(1, 600)]
    const branches = ['a', 'b', 'c'].map((text) =>
      branch({ suffix: [untrusted(text), trusted('<|im_end|>\n<|im_start|>assistant\n')], maxTokens: 4 }),
    )
    const { finishes } = await collect(await generate(engine, prefix, branches))
    expect(finishes).toHaveLength(3)
    await expectAllFreed(engine)
  })

  it('continues with other requests while long audio is encoded', async () => {
    const long = generate(engine, asked(sound(60)), [branch({ maxTokens: 1 })])
    const short = run(engine, chat, branch({ maxTokens: 4 }))
    const order: string[] = []
    await Promise.all([long.then(collect).then(() => order.push('long')), short.then(() => order.push('short'))])
    expect(order).toEqual(['short', 'long'])
  })

  it('drops long audio when its request is aborted', async () => {
    const controller = new AbortController()
    const given = generate(engine, asked(sound(60)), [branch()], { signal: controller.signal })
    controller.abort(new Error('client disconnected'))
    await expect(given).rejects.toThrow('client disconnected')
    await expectAllFreed(engine)
  })
})

describe('a service with audio input', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer({
      startEngine: (model, options) => LocalEngine.start(model, options),
      environment: { LOOKOUT_MODEL_CARD: card.path },
    })
  })
  afterAll(() => server?.close())

  const samples = (seconds: number, rate: number) =>
    Float32Array.from({ length: Math.round(seconds * rate) }, (_, i) => tone(i / rate))
  const ask = (content: unknown[], fields: object = {}) =>
    server.post('/v1/chat/completions', {
      model: 'service-mk1.5',
      max_completion_tokens: 4,
      messages: [{ role: 'user', content: [...content, { type: 'text', text: 'What?' }] }],
      ...fields,
    })
  interface Answer {
    usage: { prompt_tokens: number; prompt_tokens_details: { audio_tokens: number } | null }
  }
  const audioTokens = async (response: Response) => {
    expect(response.status).toBe(200)
    return (await jsonOf<Answer>(response)).usage.prompt_tokens_details?.audio_tokens
  }
  /** What clients call them. */
  const NAMES: Readonly<Record<string, string>> = { ipod: 'm4a', adts: 'aac' }
  const input = (bytes: Buffer, format: string) => ({
    type: 'input_audio',
    input_audio: { data: bytes.toString('base64'), format },
  })

  it.each([
    ['wav', 44_100, 2],
    ['mp3', 44_100, 1],
    ['flac', 48_000, 2],
    ['wav', 8000, 1],
    ['wav', 16_000, 1],
    ['ipod', 44_100, 2],
    ['mp4', 48_000, 1],
    ['adts', 44_100, 1],
    ['ogg', 44_100, 2],
    ['opus', 48_000, 1],
    ['webm', 48_000, 2],
  ] as const)('%s at %i Hz with %i channels', async (format, rate, channels) => {
    const bytes = await makeAudio({ format, samples: samples(2.5, rate), rate, channels })
    expect(await audioTokens(await ask([input(bytes, NAMES[format] ?? format)]))).toBe(32)
    const url = `data:audio/${format === 'mp3' ? 'mpeg' : format};base64,${bytes.toString('base64')}`
    expect(await audioTokens(await ask([{ type: 'audio_url', audio_url: { url } }]))).toBe(32)
  })

  it("for OpenAI's clients, a data URL of a sound or a video may be in an image's part, as Dify sends it", async () => {
    const open = await startTestServer({
      startEngine: (model, options) => LocalEngine.start(model, options),
      environment: { LOOKOUT_MODEL_CARD: card.path, LOOKOUT_COMPATIBILITY: 'openai' },
    })
    const ask = (content: object[]) =>
      open.post('/v1/chat/completions', {
        ...{ model: 'service-mk1.5', max_completion_tokens: 4 },
        messages: [{ role: 'user', content: [...content, { type: 'text', text: 'What?' }] }],
      })
    const dataUrl = (type: string, bytes: Buffer) => ({ url: `data:${type};base64,${bytes.toString('base64')}` })
    onTestFinished(() => open.close())
    // The bytes of a large body are decoded before its parts are read.
    for (const [format, seconds] of [
      ['mp3', 0.5],
      ['wav', 2.5],
    ] as const) {
      const bytes = await makeAudio({ format, samples: samples(seconds, RATE), rate: RATE })
      const heard = await ask([{ type: 'image_url', image_url: dataUrl('audio/mpeg', bytes) }])
      expect(await audioTokens(heard)).toBe(Math.ceil(seconds * 12.5))
    }
    const frames = Array.from({ length: 10 }, () => ({ width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) }))
    const video = dataUrl('video/webm', await makeVideo({ format: 'webm', frames }))
    const [shown, own] = [
      await ask([{ type: 'image_url', image_url: { ...video, detail: 'high' } }]),
      await ask([{ type: 'video_url', video_url: video }]),
    ]
    expect([shown.status, own.status]).toEqual([200, 200])
    const tokens = async (response: Response) => (await jsonOf<Answer>(response)).usage.prompt_tokens
    expect(await tokens(shown)).toBe(await tokens(own))
    const broken = await ask([{ type: 'image_url', image_url: dataUrl('video/webm', Buffer.from('GIF89a')) }])
    expect((await errorOf(broken)).param).toBe('messages[0].content[0].image_url.url')
    const cut = dataUrl('video/mp4', Buffer.from('\0\0\0\x18ftypisom\0\0\0\0', 'latin1'))
    const damaged = await ask([{ type: 'image_url', image_url: cut }])
    expect([damaged.status, (await errorOf(damaged)).param]).toEqual([400, 'messages[0].content[0].image_url.url'])
  })

  it('detects the format from the bytes, not from the declared format', async () => {
    const bytes = await makeAudio({ format: 'flac', samples: samples(1.5, RATE), rate: RATE })
    expect(await audioTokens(await ask([input(bytes, 'mp3')]))).toBe(19)
  })

  it.each(['mp4', 'webm'] as const)('the audio of a video is analysed only on request: %s', async (format) => {
    const still = { width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) }
    const url = async (audioSeconds?: number) => {
      const video = { format, frames: Array.from({ length: 10 }, () => still) }
      const bytes = await makeVideo(audioSeconds === undefined ? video : { ...video, audioSeconds })
      return [{ type: 'video_url', video_url: { url: `data:video/${format};base64,${bytes.toString('base64')}` } }]
    }
    const heard = { vision_config: { enable_audio_in_video: true } }
    expect(await audioTokens(await ask(await url(2.5)))).toBe(0)
    expect(await audioTokens(await ask(await url(2.5), heard))).toBeGreaterThanOrEqual(32)
    expect(await audioTokens(await ask(await url(2.5), heard))).toBeLessThan(34)
    // A video without an audio track is processed as video only.
    expect(await audioTokens(await ask(await url(), heard))).toBe(0)
  })

  const noteOf = async (bytes: Buffer) => {
    const response = await ask([input(bytes, 'wav')])
    expect(response.status, await response.clone().text()).toBe(200)
    return response.headers.get('x-lookout-note')
  }
  const incomplete = 'The audio is damaged or truncated; a part of it is analysed'

  it.each(['mp4', 'webm'] as const)('the sound of a video is heard where audio is expected: %s', async (format) => {
    const frames = Array.from({ length: 5 }, () => ({ width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) }))
    const heard = await makeVideo({ format, frames, audioSeconds: 3 })
    expect(await audioTokens(await ask([input(heard, format)]))).toBe(38)
    const silent = await ask([input(await makeVideo({ format, frames }), format)])
    expect([silent.status, (await errorOf(silent)).message]).toEqual([400, 'The file has no audio'])
    const alone = await makeAudio({ format, samples: samples(1, 48_000), rate: 48_000 })
    const url = `data:video/${format};base64,${alone.toString('base64')}`
    const seen = await ask([{ type: 'video_url', video_url: { url } }])
    const { message } = await errorOf(seen)
    expect([seen.status, message]).toEqual([400, 'The file has no video, only sound: send it as audio'])
  })

  it.each(['ogg', 'opus'] as const)('what is put behind the end of a stream: %s', async (format) => {
    const bytes = await makeAudio({ format, samples: samples(2, 48_000), rate: 48_000 })
    expect(await noteOf(Buffer.concat([bytes, Buffer.alloc(1_000)]))).toBeNull()
    // A second recording of the same stream, as broadcasts have it.
    const both = await ask([input(Buffer.concat([bytes, bytes]), format)])
    expect([await audioTokens(both), both.headers.get('x-lookout-note')]).toEqual([expect.toBeOneOf([50, 51]), null])
  })

  it.each(['wav', 'w64', 'mp3', 'flac', 'adts', 'ipod', 'mp4', 'ogg', 'opus', 'webm'] as const)(
    'audio of which a part is missing: the response says so: %s',
    async (format) => {
      const rate = format === 'opus' || format === 'webm' ? 48_000 : 44_100
      // Vorbis begins with 4 kB of tables.
      const seconds = format === 'ogg' ? 20 : 4
      const bytes = await makeAudio({ format, samples: samples(seconds, rate), rate, indexFirst: true })
      const middle = bytes.length >> 1
      expect(await noteOf(bytes)).toBeNull()
      expect(await noteOf(bytes.subarray(0, middle))).toBe(incomplete)
      if (format === 'wav' || format === 'w64') return
      expect(await noteOf(Buffer.from(bytes).fill(0x55, middle, middle + 5_000))).toBe(incomplete)
      expect(await noteOf(Buffer.concat([bytes.subarray(0, middle), bytes.subarray(middle + 5_000)]))).toBe(incomplete)
    },
  )

  it('recordings that programs write while they last, and parts of broadcasts, are whole', async () => {
    const [four, rate] = [samples(4, 48_000), 48_000]
    for (const format of ['webm', 'opus', 'ogg', 'mp4'] as const)
      expect([format, await noteOf(await makeAudio({ format, samples: four, rate, from: 300 }))]).toEqual([
        format,
        null,
      ])
    const recorded = await makeAudio({ format: 'mp4', samples: four, rate, isFragmented: true })
    expect(await noteOf(recorded)).toBeNull()
    expect(await noteOf(recorded.subarray(0, recorded.length >> 1))).toBe(incomplete)
  })

  it('is the first track that can be decoded', async () => {
    const frames = [{ width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) }]
    const tracks = (soundCodecs: string[]) => makeVideo({ format: 'mp4', frames, audioSeconds: 2, soundCodecs })
    expect(await audioTokens(await ask([input(await tracks(['dca', 'aac']), 'mp4')]))).toBeOneOf([25, 26])
    const unknown = await ask([input(await tracks(['dca']), 'mp4')])
    expect([unknown.status, (await errorOf(unknown)).message]).toEqual([400, 'The audio codec is not supported'])
    const bytes = await makeAudio({ format: 'mp4', samples: samples(1, 44_100), rate: 44_100, indexFirst: true })
    const spoiled = await ask([input(bytes.fill(0x55, bytes.indexOf('mdat') + 4), 'mp4')])
    expect([spoiled.status, (await errorOf(spoiled)).message]).toEqual([400, 'The audio cannot be decoded'])
  })

  it.each(['webm', 'mp4'] as const)('the command hears what a browser has recorded: %s', async (format) => {
    const path = join(dirname(card.path), `memo.${format}`)
    await writeFile(path, await makeAudio({ format, samples: samples(1, 48_000), rate: 48_000 }))
    const answer = await outcomeHere(chatCommand, [path, 'What?', '--max-tokens', '2'], {
      LOOKOUT_URL: server.url,
      LOOKOUT_API_KEY: KEY,
    })
    expect(answer).toMatchObject({ code: 0 })
  })

  it('an MP3 with zero bytes or tags behind its audio is whole', async () => {
    const counted = await makeAudio({ format: 'mp3', samples: samples(4, 44_100), rate: 44_100 })
    const mark = Math.max(counted.indexOf('Xing'), counted.indexOf('Info'))
    const uncounted = Buffer.from(counted).fill(0, mark, mark + 4)
    const lyrics = Buffer.from(`LYRICSBEGIN${'la '.repeat(1000)}LYRICS200`)
    for (const tail of [Buffer.alloc(1000), Buffer.alloc(65_536), lyrics]) {
      for (const bytes of [counted, uncounted]) expect(await noteOf(Buffer.concat([bytes, tail]))).toBeNull()
      const middle = uncounted.length >> 1
      const broken = Buffer.from(uncounted).fill(0x55, middle, middle + 5_000)
      expect(await noteOf(Buffer.concat([broken, tail]))).toBe(incomplete)
    }
  })

  it.each([0, 0x7fff_ffff, 0xffff_ffff])('a WAV whose header leaves its length open is whole: %i', async (length) => {
    const bytes = await makeAudio({ format: 'wav', samples: samples(1, RATE), rate: RATE })
    bytes.writeUInt32LE(length, 4)
    bytes.writeUInt32LE(length, bytes.indexOf('data') + 4)
    expect(await noteOf(bytes)).toBeNull()
  })

  it('audio over the limit is rejected, never truncated', async () => {
    const bytes = await makeAudio({ format: 'mp3', samples: new Float32Array(82 * 8000), rate: 8000 })
    const expected = {
      type: 'invalid_request_error',
      code: 'audio_token_limit_exceeded',
      message: expect.stringMatching(/1024 audio tokens, about 81 seconds/),
    }
    const response = await ask([{ type: 'text', text: 'Listen.' }, input(bytes, 'mp3')])
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toEqual({ ...expected, param: 'messages[0].content[1].input_audio' })
  })

  it('the longest accepted audio stays within the limit', async () => {
    const sound = async (seconds: number) =>
      input(
        await makeAudio({ format: 'flac', samples: new Float32Array(Math.ceil(seconds * RATE)), rate: RATE }),
        'flac',
      )
    // 12.5 tokens a second, although each second takes 13 of the prompt.
    expect(await audioTokens(await ask([await sound(81.92)]))).toBe(1024)
    expect((await ask([await sound(81.921)])).status).toBe(400)
  })

  it('silence counts like other audio', async () => {
    const bytes = await makeAudio({ format: 'wav', samples: new Float32Array(RATE * 1.5), rate: RATE })
    expect(await audioTokens(await ask([input(bytes, 'wav')]))).toBe(19)
  })

  it('counts in multilook, with the context once for each prompt', async () => {
    const bytes = await makeAudio({ format: 'wav', samples: samples(1.5, RATE), rate: RATE })
    const response = await server.post('/v1/chat/completions/multilook', {
      model: 'service-mk1.5',
      context: [{ role: 'user', content: [input(bytes, 'wav')] }],
      prompts: ['What?', { content: [input(bytes, 'wav'), { type: 'text', text: 'And this?' }] }],
      max_completion_tokens: 2,
    })
    expect(await audioTokens(response)).toBe(19 * 3)
  })

  it('rejects data that is not audio', async () => {
    const aiff = Buffer.from('FORM\0\0\0\x20AIFFCOMM')
    const still = { width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) }
    const film = await makeVideo({ format: 'mov', frames: [still], audioSeconds: 1 })
    for (const bytes of [
      aiff,
      film,
      Buffer.from('OggS and so on'),
      Buffer.from('RIFF....WAVEnothing'),
      Buffer.from('ID3'),
    ]) {
      const response = await ask([input(bytes, 'wav')])
      expect(response.status).toBe(400)
      expect(await errorOf(response)).toMatchObject({ param: 'messages[0].content[0].input_audio.data' })
    }
  })
})

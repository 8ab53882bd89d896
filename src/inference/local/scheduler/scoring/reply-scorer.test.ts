import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  apiError,
  branch,
  CARD,
  chat,
  collect,
  countTokens,
  endless,
  firstEvent,
  generate,
  longestPause,
  picture,
  smallCard,
  trusted,
  until,
  untrusted,
} from '../../../../../test/support/local-engine.ts'
import { ask, logProbsOf, OPEN_TURN, read, readAll } from '../../../../../test/support/reads.ts'
import { loadLocalCard } from '../../../../models/card.ts'
import type { PromptPart } from '../../../contract/parts.ts'
import type { ReadQuestion } from '../../../contract/work.ts'
import { LocalEngine } from '../../host/local-engine.ts'

const PREFIX: readonly PromptPart[] = [trusted('<|im_start|>user\n'), picture(256, 256), untrusted('Look. ')]
/** Short and long ones, with replies that begin alike, with media, without a suffix. */
const QUESTIONS: readonly ReadQuestion[] = [
  ask('Is it red?', 'Yes', 'No', 'Yes.', 'Yes. It is', 'No.'),
  ask(
    'What colour is the large thing at the left, above the small one and below all others?',
    'red',
    'red circle',
    'r',
  ),
  ask('x', 'a'),
  { suffix: [untrusted('And is this one like it? '), picture(192, 256, 3), OPEN_TURN], replies: ['Yes', 'No'] },
  ask('Which number is it?', ...Array.from({ length: 255 }, (_, n) => `number ${n} of all`)),
  ask(`Say whether this is so: ${'it is there or it is not. '.repeat(40)}`, 'true', 'false'),
  { suffix: [], replies: ['Yes', 'No'] },
  ask('Is it green?', 'Yes', 'No'),
  { ...ask('Which number is it?', 'number 1', 'number 2', 'no'), goesOn: true },
]
const all = QUESTIONS.map((_, index) => index)

/** The queue is short, so that it fills. */
const start = async () => LocalEngine.start(await loadLocalCard(CARD), { seed: 1, maxWaiting: 4 })

let engine: LocalEngine
let expected: readonly (readonly number[])[]
beforeAll(async () => {
  engine = await start()
  expected = await readAll(engine, PREFIX, QUESTIONS)
})
afterAll(() => engine?.close())

const sum = (logProbs: readonly number[]) => logProbs.reduce((total, logProb) => total + Math.exp(logProb), 0)

describe('the probabilities of replies', () => {
  test('are probabilities, and add up to no more than 1', () => {
    expect(expected).toHaveLength(QUESTIONS.length)
    for (const [index, logProbs] of expected.entries()) {
      expect(logProbs).toHaveLength(QUESTIONS[index]!.replies.length)
      for (const logProb of logProbs) expect(logProb).toBeLessThanOrEqual(0)
      for (const logProb of logProbs) expect(Number.isNaN(logProb)).toBe(false)
      expect(sum(logProbs)).toBeLessThanOrEqual(1 + 1e-6)
    }
  })

  test('say what the model replies', async () => {
    // The answer of the weights does not matter: their reply is likelier than any other of its kind.
    const generation = await generate(engine, [...PREFIX, untrusted('Hello'), OPEN_TURN], [branch({ maxTokens: 60 })])
    const { texts, finishes } = await collect(generation)
    expect(finishes[0]!.reason).toBe('stop')
    const reply = texts['0.0']!
    const others = ['Yes', 'No', `${reply} `, reply.slice(0, -1), `${reply}${reply}`]
    const [logProbs] = await readAll(engine, PREFIX, [ask('Hello', reply, ...others)])
    for (const other of logProbs!.slice(1)) expect(other).toBeLessThan(logProbs![0]!)
  })

  test('are products along the tokens: what a reply begins with may as well be in the prompt', async () => {
    const [begin, ends] = ['2', ['0', '1', '7', '95']]
    for (const end of ends) {
      const [whole, first, second] = await Promise.all(
        [begin + end, begin, end].map((text) => countTokens(engine, [untrusted(text)])),
      )
      expect(whole).toBe(first! + second!)
    }
    const prefix = [...PREFIX, untrusted('How many?'), OPEN_TURN]
    const [whole] = await readAll(engine, PREFIX, [ask('How many?', ...ends.map((end) => begin + end))])
    const [rest] = await readAll(engine, prefix, [{ suffix: [untrusted(begin)], replies: ends }])
    // Each differs by the probability of the common beginning, but for rounding.
    const differences = ends.map((_, at) => whole![at]! - rest![at]!)
    for (const difference of differences) expect(difference).toBeCloseTo(differences[0]!, 1)
    expect(differences[0]).toBeLessThan(0)
  })

  test('are those of beginnings where the reply may go on', async () => {
    const texts = ['2', '20', '27', '295', '7']
    const question = ask('How many?', ...texts)
    const [[...begun], [...whole]] = [
      (await readAll(engine, PREFIX, [{ ...question, goesOn: true }]))[0]!,
      (await readAll(engine, PREFIX, [question]))[0]!,
    ]
    // What begins with "2" goes on with a digit or ends there.
    expect(Math.exp(begun[0]!)).toBeGreaterThan(sum([whole[0]!, begun[1]!, begun[2]!, begun[3]!]) - 1e-6)
    for (const [at, logProb] of begun.entries()) expect(logProb).toBeGreaterThan(whole[at]!)
    const rest = { suffix: [untrusted('2')], replies: ['0', '7', '95'], goesOn: true }
    const [after] = await readAll(engine, [...PREFIX, untrusted('How many?'), OPEN_TURN], [rest])
    for (const [at, logProb] of after!.entries()) expect(begun[0]! + logProb).toBeCloseTo(begun[at + 1]!, 1)
  })

  test('are those of texts: control tokens in a reply are characters', async () => {
    const [logProbs] = await readAll(engine, PREFIX, [ask('Hello', 'Hi', 'Hi<|im_end|>')])
    expect(logProbs![1]).toBeLessThan(logProbs![0]!)
  })
})

/** Sends all questions, and aborts after some answers. */
async function leaveAfter(count: number, organisation: string): Promise<void> {
  const { answers } = await read(engine, PREFIX, QUESTIONS, { organisation })
  let left = count
  for await (const _ of answers) if (--left === 0) break
}

describe('the numbers of a question', () => {
  test('are the same alone', async () => {
    for (const [index, question] of QUESTIONS.entries()) {
      expect(await readAll(engine, PREFIX, [question]), `question ${index}`).toEqual([expected[index]])
    }
  })

  test('are the same in any selection and order, for any organisation, beside other work', async () => {
    const selection = fc.shuffledSubarray([...all, ...all], { minLength: 1, maxLength: 8 })
    const company = fc.constantFrom('nothing', 'chats', 'reads', 'leavers')
    const property = fc.asyncProperty(selection, company, fc.nat(3), async (chosen, beside, organisation) => {
      const leaving = new AbortController()
      const { signal } = leaving
      if (beside === 'chats') await firstEvent(await generate(engine, chat, [endless(3)], { signal }))
      const other =
        beside === 'reads' ? readAll(engine, [trusted('<|im_start|>user\n')], QUESTIONS.slice(0, 5), 'other') : null
      const leavers = beside === 'leavers' ? [1, 2, 3].map((count) => leaveAfter(count, `leaver ${count}`)) : []
      const found = await readAll(
        engine,
        PREFIX,
        chosen.map((index) => QUESTIONS[index]!),
        `org ${organisation}`,
      )
      leaving.abort()
      await Promise.all([other, ...leavers])
      expect(found).toEqual(chosen.map((index) => expected[index]))
    })
    await fc.assert(property, { numRuns: 4 })
  })

  test('are the same among 100', async () => {
    const questions = Array.from({ length: 100 }, (_, n) => QUESTIONS[[0, 1, 2, 7][n % 4]!]!)
    const found = await readAll(engine, PREFIX, questions)
    expect(found).toEqual(questions.map((question) => expected[QUESTIONS.indexOf(question)]))
  })
})

describe('a read', () => {
  test('counts prompts as branches are counted, and what an earlier one has left', async () => {
    const [prefix, suffix, own] = await Promise.all([
      countTokens(engine, [...PREFIX]),
      countTokens(engine, [...QUESTIONS[0]!.suffix]),
      countTokens(engine, [...QUESTIONS[3]!.suffix]),
    ])
    const questions = [QUESTIONS[0]!, QUESTIONS[3]!]
    const prompts = [
      { promptTokens: prefix + suffix, imageTokens: 64, audioTokens: 0, cachedTokens: 0 },
      { promptTokens: prefix + own, imageTokens: 112, audioTokens: 0, cachedTokens: prefix },
    ]
    const before = await engine.stats()
    const first = await read(engine, PREFIX, questions, { organisation: 'counted' })
    await logProbsOf(first)
    expect(first.prompts).toEqual(prompts)
    const between = await engine.stats()
    expect(between.prefilledTokens - before.prefilledTokens).toBe(prefix + suffix + own)
    const second = await read(engine, PREFIX, questions, { organisation: 'counted' })
    await logProbsOf(second)
    expect(second.prompts).toEqual([{ ...prompts[0], cachedTokens: prefix }, prompts[1]])
    expect((await engine.stats()).prefilledTokens - between.prefilledTokens).toBe(suffix + own)
  })

  test('has what chats of its organisation have computed, and they have what it has', async () => {
    const prefix = await countTokens(engine, [...PREFIX])
    const chatOf = (organisation: string, one = branch({ maxTokens: 4 })) =>
      generate(engine, [...PREFIX, untrusted('Hello'), OPEN_TURN], [one], { organisation })
    const readFirst = async (organisation: string) => {
      const before = (await engine.stats()).prefilledTokens
      const reading = await read(engine, PREFIX, [QUESTIONS[0]!], { organisation })
      // The same bits, too.
      expect(await logProbsOf(reading)).toEqual([expected[0]])
      const own = await countTokens(engine, [...QUESTIONS[0]!.suffix])
      return prefix + own - ((await engine.stats()).prefilledTokens - before)
    }
    await collect(await chatOf('ended'))
    expect(await readFirst('ended')).toBe(prefix)

    await firstEvent(await chatOf('running', endless(1)))
    const beside = await read(engine, PREFIX, [QUESTIONS[0]!], { organisation: 'running' })
    expect(beside.prompts[0]!.cachedTokens).toBe(prefix)
    expect(await logProbsOf(beside)).toEqual([expected[0]])

    expect(await readFirst('reading')).toBe(0)
    const chat = await chatOf('reading')
    expect(chat.prompts[0]!.cachedTokens).toBe(prefix)
    await collect(chat)
    expect((await chatOf('other')).prompts[0]!.cachedTokens).toBe(0)
  })

  test('delays chats by at most a step, and they do not stop it', async () => {
    const questions = Array.from({ length: 30 }, () => QUESTIONS[0]!)
    const pause = await longestPause(engine, () => readAll(engine, PREFIX, questions))
    // The margin is for a busy machine.
    expect(pause).toBeLessThan(1000)
  })

  test('takes turns with those of other organisations', async () => {
    const many = await read(
      engine,
      PREFIX,
      Array.from({ length: 40 }, () => QUESTIONS[0]!),
    )
    let done = false
    const long = logProbsOf(many).then(() => {
      done = true
    })
    await readAll(engine, [trusted('<|im_start|>user\n')], [QUESTIONS[1]!], 'other')
    expect(done).toBe(false)
    await long
  })

  test('ends with its signal, and frees its place', async () => {
    const leaving = new AbortController()
    const questions = Array.from({ length: 60 }, () => QUESTIONS[4]!)
    const reading = await read(engine, PREFIX, questions, { signal: leaving.signal })
    const answers = reading.answers[Symbol.asyncIterator]()
    await answers.next()
    leaving.abort(new Error('left'))
    await expect(answers.next()).rejects.toThrow('left')
    await until(async () => (await engine.stats()).running === 0)
    await expect(read(engine, PREFIX, questions, { signal: leaving.signal })).rejects.toThrow('left')
    expect(await readAll(engine, PREFIX, [QUESTIONS[0]!])).toEqual([expected[0]])
  })

  test('ends when the caller stops reading its answers', async () => {
    const { answers } = await read(
      engine,
      PREFIX,
      Array.from({ length: 60 }, () => QUESTIONS[4]!),
    )
    for await (const _ of answers) break
    await until(async () => (await engine.stats()).running === 0)
  })

  test('is refused when the queue is full', async () => {
    const leaving = new AbortController()
    const { signal } = leaving
    const outcomes = await Promise.allSettled(
      Array.from({ length: 12 }, (_, n) =>
        read(
          engine,
          PREFIX,
          Array.from({ length: 30 }, () => QUESTIONS[4]!),
          { signal, organisation: `org ${n}` },
        ),
      ),
    )
    leaving.abort()
    const refused = outcomes.filter(({ status }) => status === 'rejected')
    expect(refused.length).toBeGreaterThan(0)
    expect(refused.length).toBeLessThan(12)
    for (const outcome of refused) {
      expect(outcome).toMatchObject({
        reason: { status: 503, code: 'model_overloaded', retryAfter: expect.any(Number) },
      })
    }
    await until(async () => (await engine.stats()).running === 0)
  })

  test.each<[string, ReadQuestion, RegExp]>([
    ['a prompt that is too long', ask('word '.repeat(40_000), 'Yes'), /context length/],
    ['a reply that is too long', ask('Hello', 'word '.repeat(2000)), /at most/],
    ['a reply without tokens', ask('Hello', 'Yes', ''), /no tokens/],
  ])('names the question with %s', async (_, question, message) => {
    const reading = read(engine, PREFIX, [QUESTIONS[0]!, { ...question, param: 'questions[1]' }])
    await expect(reading).rejects.toEqual(
      apiError({ status: 400, param: 'questions[1]', message: expect.stringMatching(message) as unknown as string }),
    )
  })
})

test('a prompt must not be empty', async () => {
  await expect(read(engine, [], [{ suffix: [], replies: ['Yes'] }])).rejects.toEqual(
    apiError({ status: 400, param: 'messages' }),
  )
})

test('a prompt and the longest reply must fit the context', async () => {
  const small = await LocalEngine.start(await smallCard(256, 4), { seed: 1 })
  try {
    const tokens = await countTokens(small, [trusted('a'), untrusted('word '.repeat(200)), OPEN_TURN])
    const words = 200 - (tokens - 250)
    const suffix = [trusted('a'), untrusted('word '.repeat(words)), OPEN_TURN]
    expect(await countTokens(small, suffix)).toBeLessThan(256)
    expect(await readAll(small, [], [{ suffix, replies: ['a', 'b'] }])).toHaveLength(1)
    await expect(read(small, [], [{ suffix, replies: ['a', 'word '.repeat(20)] }])).rejects.toEqual(
      apiError({ status: 400, param: 'messages' }),
    )
  } finally {
    await small.close()
  }
})

test('another process has the same numbers; a read fails when it ends, and a third one goes on', async () => {
  const mortal = await start()
  try {
    expect(await readAll(mortal, PREFIX, QUESTIONS.toReversed())).toEqual(expected.toReversed())
    const { answers } = await read(
      mortal,
      PREFIX,
      Array.from({ length: 60 }, () => QUESTIONS[4]!),
    )
    const iterator = answers[Symbol.asyncIterator]()
    await iterator.next()
    process.kill(mortal.pid!, 'SIGKILL')
    await expect(
      (async () => {
        while ((await iterator.next()).done !== true);
      })(),
    ).rejects.toEqual(apiError({ status: 503, code: 'model_overloaded' }))
    await until(() => mortal.state === 'ready')
    expect(await readAll(mortal, PREFIX, [QUESTIONS[0]!])).toEqual([expected[0]])
  } finally {
    await mortal.close()
  }
})

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, Output, streamText, tool } from 'ai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { pythonWith, skipped } from './support/python.ts'
import { KEY, type TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'

/**
 * Frameworks in their default modes, unchanged, with the shipped model: against a server that keeps to the contract, and one
 * with `compatibility: openai`. What the model says is not judged, only that it comes in the form that was asked for.
 */
const MODEL = 'service-mk1.5'

let contract: TestServer
let open: TestServer
beforeAll(async () => {
  contract = await startShippedServer()
  open = await startShippedServer({ environment: { LOOKOUT_COMPATIBILITY: 'openai' } })
})
afterAll(async () => {
  await contract?.close()
  await open?.close()
})

const TEXT = expect.stringMatching(/\w/)
const SCENE = { colour: expect.stringMatching(/^(red|green|blue)$/), count: expect.any(Number) }
/** What the contract rejects, in the words of the server. */
const noToolChoice = { message: expect.stringContaining('tool_choice must be') }
const noJsonObject = { message: expect.stringMatching(/response_format\.type/) }
/** The server has taken the request. Whether a small model's object is the wanted one is up to the model. */
const TAKEN = expect.not.objectContaining({ message: expect.stringMatching(/\b[45]\d\d\b/) })

interface Framework {
  readonly name: string
  readonly module: string
  /** What each mode gives with the contract, and with the setting. */
  readonly modes: Readonly<Record<string, readonly [unknown, unknown]>>
}

const always = (expected: unknown) => [expected, expected] as const

const FRAMEWORKS: readonly Framework[] = [
  {
    name: 'instructor',
    module: 'instructor',
    modes: { default: [noToolChoice, SCENE], JSON: [noJsonObject, TAKEN], JSON_SCHEMA: always(SCENE) },
  },
  {
    name: 'pydantic_ai',
    module: 'pydantic_ai.models.openai',
    modes: {
      text: always(TEXT),
      stream: always(TEXT),
      default: [noToolChoice, SCENE],
      NativeOutput: always(SCENE),
      PromptedOutput: [noJsonObject, TAKEN],
    },
  },
  {
    name: 'langchain',
    module: 'langchain_openai',
    modes: {
      text: always(TEXT),
      'image block': always(TEXT),
      stream: always(TEXT),
      stop: [TEXT, expect.stringMatching(/^\S+$/)],
      default: always(SCENE),
      function_calling: [noToolChoice, SCENE],
      json_mode: [noJsonObject, 'dict'],
      bind_tools: always(TEXT),
      'bind_tools any': [noToolChoice, { tool: 'Scene', ...SCENE }],
    },
  },
  {
    name: 'llamaindex',
    module: 'llama_index.llms.openai_like',
    modes: {
      text: always(TEXT),
      stream: always(TEXT),
      'function calling': [noToolChoice, SCENE],
      should_use_structured_outputs: always(SCENE),
    },
  },
  {
    name: 'litellm',
    module: 'litellm',
    modes: {
      text: always(TEXT),
      stream: always(TEXT),
      stop: [TEXT, expect.stringMatching(/^\S+$/)],
      response_format: always(SCENE),
      json_object: [noJsonObject, 'dict'],
      required: [noToolChoice, SCENE],
    },
  },
  {
    name: 'mistralai',
    module: 'mistralai',
    modes: {
      'image URL': always(TEXT),
      stream: always(TEXT),
      'any tool': [{ message: expect.stringContaining("'tool_choice': expected one of") }, TEXT],
      transcription: always(TEXT),
      'transcription by address': always(TEXT),
      models: [{ error: 'ResponseValidationError' }, [MODEL, MODEL, true]],
      download: always(true),
    },
  },
  {
    name: 'huggingface_hub',
    module: 'huggingface_hub',
    modes: {
      text: always(TEXT),
      stream: always(TEXT),
      response_format: [noJsonObject, SCENE],
      required: [noToolChoice, SCENE],
    },
  },
  { name: 'dspy', module: 'dspy', modes: { default: always(SCENE), JSONAdapter: always(SCENE) } },
]

describe.each(FRAMEWORKS)('$name', ({ name, module, modes }) => {
  const python = pythonWith(module)
  if (python === null) console.warn(skipped(`the test with ${name}`, module))

  test.skipIf(python === null)('does what it can with and without the setting', { timeout: 180_000 }, async () => {
    const script = fileURLToPath(new URL('support/frameworks.py', import.meta.url))
    const args = [script, name, KEY, MODEL, contract.url, open.url]
    const { stdout } = await promisify(execFile)(python!, args)
    const seen = JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, unknown>[]
    for (const [index, given] of seen.entries()) {
      const expected = Object.fromEntries(Object.entries(modes).map(([mode, both]) => [mode, both[index]]))
      expect(given, index === 0 ? 'with the contract' : 'with the setting').toMatchObject(expected)
    }
  })
})

describe('the AI SDK', () => {
  const schema = z.object({ colour: z.enum(['red', 'green', 'blue']), count: z.int() })
  const modelOf = ({ url }: TestServer, options: object = {}) =>
    createOpenAICompatible({ name: 'lookout', baseURL: `${url}/v1`, apiKey: KEY, ...options })(MODEL)
  const asked = async () => ({
    maxRetries: 0,
    messages: [
      {
        role: 'user' as const,
        content: [
          { type: 'file' as const, mediaType: 'image/png', data: await readFile('docs/pictures/shapes.png') },
          { type: 'text' as const, text: 'What is in this image?' },
        ],
      },
    ],
  })

  test('an object, with supportsStructuredOutputs: with and without the setting', async () => {
    for (const server of [contract, open]) {
      const model = modelOf(server, { supportsStructuredOutputs: true })
      const { output } = await generateText({ model, output: Output.object({ schema }), ...(await asked()) })
      expect(schema.parse(output)).toEqual(output)
    }
  })

  test('without it, json_object is asked for, which takes the setting', async () => {
    const options = { output: Output.json(), ...(await asked()) }
    await expect(generateText({ model: modelOf(contract), ...options })).rejects.toThrow('response_format.type')
    expect((await generateText({ model: modelOf(open), ...options })).output).toBeTypeOf('object')
  })

  test('a required tool takes the setting', async () => {
    const options = {
      tools: { report: tool({ description: 'Reports what is seen.', inputSchema: schema }) },
      toolChoice: 'required' as const,
      ...(await asked()),
    }
    await expect(generateText({ model: modelOf(contract), ...options })).rejects.toThrow('tool_choice must be')
    const { toolCalls } = await generateText({ model: modelOf(open), ...options })
    expect(toolCalls).toMatchObject([{ toolName: 'report', input: SCENE }])
  })

  test('stop sequences and seeds count with the setting, streamed', async () => {
    const options = { stopSequences: [' '], seed: 1, ...(await asked()) }
    const text = async (server: TestServer) => await streamText({ model: modelOf(server), ...options }).text
    expect(await text(open)).toMatch(/^\S+$/)
    expect(await text(contract)).toMatch(/\s/)
  })
})

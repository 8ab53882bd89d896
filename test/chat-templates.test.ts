import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { ChatTemplate } from '../src/conversation/prompt/chat-template.ts'
import { buildPrompt } from '../src/conversation/prompt/prompt.ts'
import { TemplateProcesses } from '../src/conversation/prompt/template-processes.ts'
import { type Message, placeMessages } from '../src/conversation/request/message.ts'
import { templateVariables } from '../src/templates/conversation.ts'
import { JinjaTemplate } from '../src/templates/jinja/template.ts'
import { probeTemplate } from '../src/templates/probe.ts'
import { NO_TOKENS, readTraits, USER } from '../src/templates/traits.ts'
import conversations from './fixtures/chat-conversations.json' with { type: 'json' }
import table from './fixtures/chat-templates.json' with { type: 'json' }
import { llamaTemplates } from './support/llama-templates.ts'
import { READ_MARKS, type ReadMarks } from './support/template-marks.ts'

/*
 * llama.cpp's chat templates, as Hugging Face Transformers renders them. `render_templates.py` writes the table.
 */

interface Call {
  readonly function: { readonly name: string; readonly arguments: unknown }
}
type Given = Readonly<Record<string, unknown>> & { readonly tool_calls?: readonly Call[] }
type Conversation = Readonly<Record<string, unknown>> & { readonly messages: readonly Given[] }
const CONVERSATIONS = conversations as unknown as Readonly<Record<string, Conversation>>
const TOKENS = { bosToken: '<s>', eosToken: '</s>' }

/** Where Lookout renders other text, and why. */
const OTHERWISE: Readonly<Record<string, string>> = {
  'llama-cpp-deepseek-r1.jinja':
    'writes the result of `map` as JSON, which only Python cannot: its `map` is no list. llama.cpp renders it.',
  'meetkai-functionary-medium-v3.1.jinja':
    "escapes HTML in Python, because of the filter `safe`: no model was trained on `&#34;` in its functions' descriptions.",
}

let templates: ReadonlyMap<string, string>
beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: new Date(2026, 2, 5, 14, 7, 9) })
  templates = await llamaTemplates()
})
afterAll(() => {
  vi.useRealTimers()
})

const names = Object.keys(table.templates) as (keyof typeof table.templates)[]

test('the table has the templates of the llama.cpp that set-up fetches', () => {
  const hashes = Object.fromEntries(names.map((name) => [name, table.templates[name].sha256]))
  const found = [...templates].map(([name, source]) => [name, createHash('sha256').update(source).digest('hex')])
  expect(Object.fromEntries(found)).toEqual(hashes)
})

/** As Transformers passes them on. */
function variablesOf({ messages, ...given }: Conversation): Record<string, unknown> {
  const all = {
    bos_token: '<s>',
    eos_token: '</s>',
    add_generation_prompt: true,
    tools: null,
    documents: null,
    messages: messages.map(({ reasoning_content: thought, ...message }) =>
      thought === undefined ? message : { ...message, thinking: thought, reasoning_content: thought },
    ),
    ...given,
  }
  const isLeftOut = (name: string) => name in given && given[name] === null
  return Object.fromEntries(Object.entries(all).filter(([name]) => !isLeftOut(name)))
}

function attempt(render: () => string): string | null {
  try {
    return render()
  } catch {
    return null
  }
}

function digest(text: string): string {
  return `${createHash('sha256').update(text).digest('hex').slice(0, 16)} ${[...text].length}`
}

test.each(names)('%s renders as Transformers renders it', (name) => {
  const template = new JinjaTemplate(templates.get(name)!)
  const rendered = Object.entries(CONVERSATIONS).map(([conversation, given]) => {
    const text = attempt(() => template.render(variablesOf(given)))
    return [conversation, text === null ? null : digest(text)]
  })
  // A star precedes what only the sandbox of Transformers refuses, in which lists cannot change.
  const expected = Object.entries(table.templates[name].prompts).map(([conversation, prompt]) => [
    conversation,
    prompt?.replace(/^\*/, '') ?? null,
  ])
  if (name in OTHERWISE) expect(rendered).not.toEqual(expected)
  else expect(rendered).toEqual(expected)
})

/** Conversations that a client can send to any model. */
const SENT = [
  'text',
  'system',
  'turns',
  'long',
  'thought',
  'call',
  'call-answered',
  'parallel',
  'steps',
  'thought-call',
]
/** Schemas and arguments stay as the client spelled them, where these templates indent them, or leave out blanks. */
const RESPELLED = /^(llama-cpp-deepseek-r1|meta-llama-Llama-3\.[123]|Kimi-K3)/

/** Python's spelling of JSON. */
function dumped(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(dumped).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([key, inner]) => `${JSON.stringify(key)}: ${dumped(inner)}`)
    .join(', ')}}`
}

/** Without what Lookout writes otherwise: quotation marks, letters beyond ASCII, and keys that are not in order. */
const TOOLS = ['get_weather', 'find_files'].map((name) => ({
  type: 'function',
  function: {
    name,
    description: 'What there is',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', description: 'Its name' }, exact: { type: 'boolean' } },
      required: ['city'],
    },
  },
}))
const ARGUMENTS = { city: 'Bern', exact: false }

/** A conversation with these tools and arguments, as clients send it and as Transformers takes it. */
function simplified({ messages, tools }: Conversation) {
  const withArguments = (values: unknown) =>
    messages.map((message) => {
      if (message.tool_calls === undefined) return message
      const calls = message.tool_calls.map((call) => ({
        ...call,
        function: { name: call.function.name, arguments: values },
      }))
      return { ...message, tool_calls: calls }
    })
  return { hasTools: tools !== undefined, sent: withArguments(dumped(ARGUMENTS)), taken: withArguments(ARGUMENTS) }
}

describe("a client's conversation", () => {
  test.each(names.filter((name) => !RESPELLED.test(name)))('is rendered in the same way with %s', async (name) => {
    const source = templates.get(name)!
    const jinja = new JinjaTemplate(source)
    const plain = attempt(() => jinja.render(variablesOf(CONVERSATIONS.text!)))
    if (
      plain === null &&
      attempt(() => jinja.render({ ...variablesOf(CONVERSATIONS.text!), tools: undefined })) === null
    ) {
      expect(() => new ChatTemplate({ chatTemplate: source, ...TOKENS })).toThrow(
        /does not render a plain conversation/,
      )
      return
    }
    const template = new ChatTemplate({ chatTemplate: source, ...TOKENS })
    const { thinking, noTools, besideCalls } = readTraits((variables) => jinja.render(variables))
    for (const conversation of SENT) {
      const { hasTools, sent, taken } = simplified(CONVERSATIONS[conversation]!)
      // Without a place for calls they stand in the text of a turn, or there are none.
      if (hasTools && !template.toolForms?.arguments) continue
      // These show one call of a turn, so each gets a turn of its own.
      if (conversation === 'parallel' && besideCalls?.otherCalls === false) continue
      const theirs = [taken, sent].map((messages) =>
        attempt(() =>
          jinja.render({
            ...variablesOf({ messages }),
            ...thinking.off,
            ...(hasTools ? { tools: TOOLS } : noTools === 'undefined' ? { tools: undefined } : {}),
          }),
        ),
      )
      const parts = buildPrompt(
        {
          param: 'messages',
          messages: placeMessages(sent as unknown as Message[], 'messages'),
          media: new Map(),
          instruction: null,
          demand: null,
          tools: hasTools
            ? TOOLS.map(({ function: { parameters, ...tool } }) => ({ ...tool, parameters: dumped(parameters) }))
            : [],
          thinking: false,
          replaysReasoning: true,
        },
        { template, thought: null, marks: [] },
      )
      const prompt = await parts.then(
        (all) => all.map((part) => (part.type === 'text' ? part.text : '')).join(''),
        () => null,
      )
      expect(theirs, conversation).toContain(prompt)
    }
  })
})

describe('what a template says of its model', () => {
  test.each([...READ_MARKS])('%s', (name, read) => {
    const source = templates.get(name)!
    const jinja = new JinjaTemplate(source)
    const render = (variables: Record<string, unknown>) => jinja.render(variables)
    const { thought, toolSyntax } = probeTemplate(source, render)
    const traits = readTraits(render)
    const prompt = (thinking: boolean) =>
      render(templateVariables({ turns: [USER], tools: [], thinking }, { ...traits, tokens: NO_TOKENS }))
    const [on, off] = [prompt(true), prompt(false)]
    const found: ReadMarks = {
      tools: toolSyntax,
      thought: thought && [thought.begin.trim(), thought.end],
      switchedBy: on === off ? null : Object.keys(traits.thinking.off)[0]!,
      opens: thought !== null && on.trimEnd().endsWith(thought.begin.trim()),
    }
    expect(found).toEqual(read)
  })

  test('is read of all that render a plain conversation', () => {
    const read = new Set([...READ_MARKS.keys(), 'fireworks-ai-llama-3-firefunction-v2.jinja'])
    expect(read).toEqual(new Set(names))
  })
})

test('processes render the same, without a template that ends one', async () => {
  const processes = new TemplateProcesses()
  try {
    for (const [name, source] of templates) {
      const variables = variablesOf({ messages: CONVERSATIONS.turns!.messages, date_string: '1 Jan 2026' })
      const here = attempt(() => new JinjaTemplate(source).render(variables))
      if (here === null || /strftime_now/.test(source)) continue
      expect(await processes.render(source, variables, false), name).toBe(here)
    }
  } finally {
    await processes.close()
  }
})

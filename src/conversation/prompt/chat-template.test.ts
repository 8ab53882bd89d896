import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { PromptPart } from '../../inference/contract/parts.ts'
import { probeGuarded } from '../../models/read/model-reader.ts'
import { CHATML } from '../../templates/chatml.ts'
import { type Message, placeMessages } from '../request/message.ts'
import { ChatTemplate } from './chat-template.ts'
import { buildPrompt, buildSharedPrompt, type PromptSource, type PromptStyle } from './prompt.ts'
import { TemplateProcesses } from './template-processes.ts'

function template(chatTemplate: string): ChatTemplate {
  return new ChatTemplate({ chatTemplate, bosToken: '<s>', eosToken: '</s>' })
}

function style(chatTemplate: string): PromptStyle {
  return { template: template(chatTemplate), thought: null, marks: [] }
}

function conversation(...messages: Message[]): PromptSource {
  return {
    param: 'messages',
    messages: placeMessages(messages, 'messages'),
    media: new Map(),
    instruction: null,
    demand: null,
    tools: [],
    thinking: false,
    replaysReasoning: false,
  }
}

function prompt(source: string, ...messages: Message[]): Promise<PromptPart[]> {
  return buildPrompt(conversation(...messages), style(source))
}

const user: Message = { role: 'user', content: 'Hi' }

describe('an open last turn', () => {
  const text = (text: string, trusted: boolean): PromptPart => ({ type: 'text', text, trusted })
  const system: Message = { role: 'system', content: 'Be brief.' }

  test('is rendered once for all contents', async () => {
    const shared = await buildSharedPrompt(conversation(user), style(CHATML))
    const ending = text('<|im_end|>\n<|im_start|>assistant\n', true)
    expect(shared.prefix).toEqual([
      text('<|im_start|>user\n', true),
      text('Hi', false),
      text('<|im_end|>\n<|im_start|>user\n', true),
    ])
    expect(shared.suffix([text('Who?', false)])).toEqual([text('Who?', false), ending])
    expect(shared.suffix([])).toEqual([ending])
  })

  test('may contain earlier text: some templates put the system text into the last turn', async () => {
    const source = `{% for m in messages %}{% if m.role == 'user' %}[{% if loop.last %}{{ messages[0].content }}: {% endif %}{{ m.content }}]{% endif %}{% endfor %}`
    const shared = await buildSharedPrompt(conversation(system, user), style(source))
    expect(shared.prefix).toEqual([
      text('[', true),
      text('Hi', false),
      text('][', true),
      text('Be brief.', false),
      text(': ', true),
    ])
    expect(shared.suffix([text('Who?', false)])).toEqual([text('Who?', false), text(']', true)])
  })

  test('may precede earlier text, or appear twice', async () => {
    const source = `{% for m in messages %}{% if m.role == 'user' %}<{{ m.content }}|{{ m.content }}>{% endif %}{% endfor %}{{ messages[0].content }}`
    const shared = await buildSharedPrompt(conversation(system), style(source))
    expect(shared.prefix).toEqual([text('<', true)])
    expect(shared.suffix([text('Who?', false)])).toEqual([
      text('Who?', false),
      text('|', true),
      text('Who?', false),
      text('>', true),
      text('Be brief.', false),
    ])
  })

  test('an error of the template is reported', async () => {
    const source = `{% for m in messages %}{% if loop.index0 > 0 %}{{ raise_exception('Roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}`
    const placed = { ...conversation(user), param: 'context' }
    await expect(buildSharedPrompt(placed, style(source))).rejects.toThrow(
      expect.objectContaining({ status: 400, param: 'context', message: expect.stringContaining('alternate') }),
    )
  })
})

describe('chat templates', () => {
  test('without a template, ChatML is used', async () => {
    expect(
      await template(CHATML).render(
        { turns: [{ role: 'user', content: 'Hi' }], tools: [], thinking: false },
        'messages',
      ),
    ).toBe('<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n')
  })

  test('a template that reads parts gets parts', async () => {
    const source = `{{ bos_token }}{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{{ eos_token }}{% endfor %}`
    expect(await prompt(source, user)).toEqual([
      { type: 'text', text: '<s>[user]', trusted: true },
      { type: 'text', text: 'Hi', trusted: false },
      { type: 'text', text: '</s>', trusted: true },
    ])
  })

  test('a template that trims or escapes does not change the client’s text', async () => {
    const source = '{% for m in messages %}<{{ m.content | trim | tojson }}>{% endfor %}'
    const content = '  "spaces"\n\u0000\ud800 '
    expect(await prompt(source, { role: 'user', content })).toEqual([
      { type: 'text', text: '<"', trusted: true },
      { type: 'text', text: '  "spaces"\n\u0000\ufffd ', trusted: false },
      { type: 'text', text: '">', trusted: true },
    ])
  })

  test('an error of a template that rejects the conversation is reported', async () => {
    const source = `{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No system role') }}{% endif %}{{ m.content }}{% endfor %}`
    await expect(prompt(source, { role: 'system', content: 'x' }, user)).rejects.toThrow(
      expect.objectContaining({ status: 400, param: 'messages', message: expect.stringContaining('No system role') }),
    )
  })

  test('a template that leaves out a message is an error', async () => {
    const source = `{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}`
    await expect(prompt(source, { role: 'system', content: 'x' }, user)).rejects.toThrow(
      expect.objectContaining({ status: 400, param: 'messages' }),
    )
  })

  test.each(['{% for m in messages %}', 'always the same', "{{ raise_exception('never') }}"])(
    'an unusable template is rejected at start: %s',
    (source) => {
      expect(() => template(source)).toThrow()
    },
  )
})

describe('reasoning', () => {
  const thought = { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n' }
  const ending = async (source: string, thinking: boolean) => {
    const parts = await buildPrompt(
      { ...conversation(user), thinking },
      { template: template(source), thought, marks: ['<think>'] },
    )
    const last = parts.at(-1)!
    return last.type === 'text' && last.trusted ? last.text : last
  }
  const messages = '{% for m in messages %}{{ m.content }}|{% endfor %}'

  test.each<[string, string, string, string]>([
    ['nothing', CHATML, '<|im_end|>\n<|im_start|>assistant\n<think>\n', '<|im_end|>\n<|im_start|>assistant\n'],
    ['it, whenever', `${messages}{{ '<think>\\n' }}`, '|<think>\n', '|<think>\n</think>\n\n'],
    [
      'an empty thought when it is off',
      `${messages}{% if enable_thinking %}<think>{% else %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}`,
      '|<think>',
      '|<think>\n\n</think>\n\n',
    ],
  ])('where the template writes %s', async (_, source, on, off) => {
    expect(await ending(source, true)).toBe(on)
    expect(await ending(source, false)).toBe(off)
  })
})

test('JSON of the template and of the client forms one text, up to the template’s control tokens', async () => {
  const source = `{% for t in tools or [] %}<|sys|>Tools:
{{ t | tojson }}
</end>{% endfor %}{% for m in messages %}{% if m.tool_calls %}<call>{"name": "{{ m.tool_calls[0].function.name }}", "arguments": {{ m.tool_calls[0].function.arguments }}}</call>{% else %}[{{ m.content }}]{% endif %}{% endfor %}`
  const call = { id: 'a', function: { name: 'f', arguments: '{"a": 1}' } }
  const parts = await buildPrompt(
    {
      ...conversation(user, { role: 'assistant', tool_calls: [call] }),
      tools: [{ name: 'f', description: null, parameters: '{"b":2}' }],
    },
    style(source),
  )
  expect(parts).toEqual([
    { type: 'text', text: '<|sys|>', trusted: true },
    {
      type: 'text',
      text: 'Tools:\n{"type": "function", "function": {"name": "f", "parameters": {"b":2}}}\n',
      trusted: false,
    },
    { type: 'text', text: '</end>[', trusted: true },
    { type: 'text', text: 'Hi', trusted: false },
    { type: 'text', text: ']<call>', trusted: true },
    { type: 'text', text: '{"name": "f", "arguments": {"a": 1}}', trusted: false },
    { type: 'text', text: '</call>', trusted: true },
  ])
})

describe('in another process', () => {
  const processes = new TemplateProcesses()
  afterAll(() => processes.close())
  const tokens = { bosToken: '<s>', eosToken: '</s>' }
  const conversation = (turns: number) => ({
    turns: Array.from({ length: turns }, (_, index) => ({ role: 'user' as const, content: `${index}` })),
    tools: [],
    thinking: false,
  })
  /** A template from the files of a third party's model. */
  const foreign = async (chatTemplate: string) => {
    const { traits: templateTraits } = await probeGuarded(chatTemplate)
    return new ChatTemplate({ chatTemplate, templateTraits, ...tokens }, processes)
  }

  test('a long conversation gives the same text', async () => {
    const info = { chatTemplate: CHATML, ...tokens }
    const input = conversation(2000)
    expect(await new ChatTemplate(info, processes).render(input, 'messages')).toBe(
      await new ChatTemplate(info).render(input, 'messages'),
    )
    const strict = {
      ...info,
      chatTemplate: `{{ raise_exception('Too long') if messages | length > 1 else messages[0].content }}`,
    }
    await expect(new ChatTemplate(strict, processes).render(input, 'context')).rejects.toMatchObject({
      status: 400,
      param: 'context',
      message: expect.stringContaining('Too long'),
    })
  })

  test('a third party’s template gives the same text', async () => {
    const input = conversation(3)
    expect(await (await foreign(CHATML)).render(input, 'messages')).toBe(
      await new ChatTemplate({ chatTemplate: CHATML, ...tokens }).render(input, 'messages'),
    )
    await expect(
      (await foreign(`${CHATML}{% if messages | length > 1 %}{{ raise_exception('no') }}{% endif %}`)).render(
        input,
        'messages',
      ),
    ).rejects.toMatchObject({ status: 400, message: "The model's chat template rejected this conversation: no" })
  })

  test('a process that cannot be started is no fault of the conversation', async () => {
    const own = new TemplateProcesses()
    onTestFinished(() => own.close())
    const { execPath } = process
    onTestFinished(() => void Object.assign(process, { execPath }))
    process.execPath = '/bin/false'
    const info = { chatTemplate: CHATML, ...tokens }
    await expect(new ChatTemplate(info, own).render(conversation(2000), 'messages')).rejects.toMatchObject({
      status: 503,
      message: 'No process can do it now; try again later',
    })
  })

  test('a reason of any length becomes a short error', async () => {
    const endless = await foreign(`{{ raise_exception('no' * 9000000) if messages | length > 1 else '' }}${CHATML}`)
    const error = await endless.render(conversation(2), 'messages').catch((error: Error) => error)
    expect(error).toMatchObject({ status: 400, param: 'messages', message: expect.stringMatching(/: (?:no){500}…$/) })
  })

  test('one that tries to hang the server with one conversation fails only that request', async () => {
    const trap = '{% if messages | length == 5 %}{% for i in range(4000000000) %}{% endfor %}{% endif %}'
    const [hostile, good] = await Promise.all([foreign(trap + CHATML), foreign(CHATML)])
    const answers = await Promise.allSettled([
      hostile.render(conversation(5), 'messages'),
      hostile.render(conversation(2), 'messages'),
      good.render(conversation(3), 'messages'),
    ])
    expect(answers.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled'])
    expect((answers[0] as PromiseRejectedResult).reason).toMatchObject({
      status: 400,
      param: 'messages',
      message: expect.stringMatching(
        /^The model's chat template cannot render this conversation: it (needs|takes) more than /,
      ),
    })
    // From then on it delays no other template.
    expect(await hostile.render(conversation(1), 'messages')).toContain('0')
  })

  test('many such conversations at once delay other templates only for the first', async () => {
    const trap = '{% if messages | length == 5 %}{% for i in range(4000000000) %}{{ i }}{% endfor %}{% endif %}[again]'
    const [hostile, good] = await Promise.all([foreign(trap + CHATML), foreign(CHATML)])
    const order: string[] = []
    const note = (what: string) => () => void order.push(what)
    const bad = Array.from({ length: 3 }, () => hostile.render(conversation(5), 'messages').catch(note('hostile')))
    await Promise.all([...bad, good.render(conversation(3), 'messages').then(note('good'))])
    expect(order.indexOf('good')).toBeLessThan(2)
    expect(order).toHaveLength(4)
  })
})

test.each([
  ['enable_thinking', '{{ enable_thinking }}', 'True', 'False'],
  ['thinking', '{% if thinking is defined and thinking %}deep{% else %}quick{% endif %}', 'deep', 'quick'],
  ['reasoning_effort', '{{ reasoning_effort }}', 'high', 'none'],
])('thinking is set by the variable that the template knows: %s', async (_name, shown, on, off) => {
  const thoughtful = template(`{% for m in messages %}{{ m.content }}{% endfor %}|${shown}`)
  const rendered = (thinking: boolean) =>
    thoughtful.render({ turns: [{ role: 'user', content: 'Hi' }], tools: [], thinking }, 'messages')
  expect((await rendered(true)).toLowerCase()).toBe(`Hi|${on}`.toLowerCase())
  expect((await rendered(false)).toLowerCase()).toBe(`Hi|${off}`.toLowerCase())
})

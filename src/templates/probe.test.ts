import { describe, expect, test } from 'vitest'
import { CALL_WRITERS, pythonJson } from '../../test/support/written-calls.ts'
import { JinjaTemplate } from './jinja/template.ts'
import { probeTemplate, type TemplateFindings } from './probe.ts'

function probe(source: string): TemplateFindings {
  const template = new JinjaTemplate(source)
  return probeTemplate(source, (variables) => template.render(variables))
}

/** Turns between marks, the tools before them, and calls in some syntax. */
const chat = ({ call = '', result = '{{ m.content }}', tools = '{{ tools | tojson }}', start = '' }) =>
  `{% if tools %}${tools}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.tool_calls %}{% for c in m.tool_calls %}${call}{% endfor %}{% elif m.role == 'tool' %}${result}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n${start}`

const VALUES = `{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}`

describe('the syntax of tool calls', () => {
  test.each([
    ['hermes', `<tool_call>\n{"name": "{{ c.function.name }}", "arguments": ${VALUES}}\n</tool_call>`],
    ['hermes', `<tool_call>\n{"arguments": ${VALUES}, "name": "{{ c.function.name }}"}\n</tool_call>`],
    [
      'qwen3_coder',
      '<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>',
    ],
    ['mistral', `[TOOL_CALLS]{{ c.function.name }}[ARGS]${VALUES}`],
    ['mistral', `[TOOL_CALLS] [{"name": "{{ c.function.name }}", "arguments": ${VALUES}, "id": "{{ c.id }}"}]`],
    ['llama3', `{"name": "{{ c.function.name }}", "parameters": ${VALUES}}`],
    [
      'gemma4',
      '<|tool_call>call:{{ c.function.name }}{{ "{" }}{% for k, v in c.function.arguments | items %}{{ k }}:<|"|>{{ v }}<|"|>{% endfor %}}<tool_call|>',
    ],
  ])('%s', (syntax, call) => {
    expect(probe(chat({ call }))).toMatchObject({ toolSyntax: syntax, warnings: [] })
  })

  test.each(Object.entries(CALL_WRITERS))('as models are trained to write it: %s', (syntax, write) => {
    const call = `${write('f', { city: 'Bern' }, pythonJson)}{{ c.function.arguments | tojson }}`
    expect(probe(chat({ call })).toolSyntax).toBe(syntax)
  })

  test.each([
    ['lfm2', 'List of tools: [{{ tools | tojson }}]'],
    ['granite', 'Answer with <|tool_call|> and a list. {{ tools | tojson }}'],
  ])('by the declaration where calls have no place: %s', (syntax, tools) => {
    const source = `{% if tools %}${tools}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}`
    expect(probe(source)).toMatchObject({ toolSyntax: syntax, warnings: [] })
  })

  test('none for a template without tools, and nothing to say about it', () => {
    const plain = '{% for m in messages %}{{ m.content }}{% endfor %}'
    expect(probe(plain)).toEqual({ toolSyntax: null, thought: null, warnings: [] })
  })

  test.each([
    ['<call name="{{ c.function.name }}">{{ c.function.arguments }}</call>', /is not known/],
    ['{{ raise_exception("no calls") }}', /does not render a call/],
  ])('none where it is another one, with a warning: %s', (call, warning) => {
    const { toolSyntax, warnings } = probe(chat({ call }))
    expect(toolSyntax).toBeNull()
    expect(warnings).toEqual([expect.stringMatching(warning)])
  })

  test('not by what a template tells the model about tools', () => {
    const tools = 'Answer with <tool_call>{"name": "f"}</tool_call>. {{ tools | tojson }}'
    expect(probe(chat({ tools, call: 'CALL {{ c.function.name }} {{ c.function.arguments }}' })).toolSyntax).toBeNull()
  })
})

describe('thoughts', () => {
  const marks = { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n' }

  test.each([
    ['a prompt that opens one', `{{ '<think>\\n' }}`, marks],
    ['an empty one where it is not wanted', `{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}`, marks],
    ['both', `{% if enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}`, marks],
    [
      'marks on one line, and a variable of another name',
      `{% if thinking %}<think>{% else %}<think></think>{% endif %}`,
      { begin: '<think>', end: '</think>', closing: '</think>' },
    ],
    [
      'other marks',
      `{% if reasoning_effort == 'high' %}◁think▷{% endif %}`,
      { begin: '◁think▷', end: '◁/think▷', closing: '◁/think▷' },
    ],
  ])('by %s', (_name, start, thought) => {
    expect(probe(chat({ start })).thought).toEqual(thought)
  })

  test('by a switch elsewhere, where earlier thoughts show the marks', () => {
    const source = `{% if enable_thinking %}<|think|>{% endif %}{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<|channel>thought\n{{ m.reasoning_content }}<channel|>{% endif %}{{ m.content }}{% endfor %}[model]`
    expect(probe(source).thought).toEqual({ begin: '<|channel>thought\n', end: '<channel|>', closing: '<channel|>' })
  })

  test('end as they end in earlier turns', () => {
    const source = `{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}{{ m.content }}{% endfor %}[assistant]{{ '<think>\\n' }}`
    expect(probe(source).thought).toEqual({ begin: '<think>\n', end: '</think>', closing: '\n</think>\n' })
  })

  test('are not seen in a template that only shows earlier ones, which models that never think have too', () => {
    const source = `{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% endfor %}`
    expect(probe(source).thought).toBeNull()
  })
})

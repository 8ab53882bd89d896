import { describe, expect, test } from 'vitest'
import { BUILT_IN_MARKS, BUILT_IN_TEMPLATES, type BuiltInName, builtInFor, builtInTemplate } from './built-in.ts'
import { JinjaTemplate } from './jinja/template.ts'

const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Hi' },
  { role: 'assistant', content: 'Hello.' },
  { role: 'user', content: 'Who?' },
]
const rendered = (name: BuiltInName) =>
  new JinjaTemplate(builtInTemplate(name)).render({
    messages,
    bos_token: '<s>',
    eos_token: '</s>',
    add_generation_prompt: true,
  })

test.each<[BuiltInName, string]>([
  [
    'chatml',
    '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n',
  ],
  [
    'gemma',
    '<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n<start_of_turn>user\nWho?<end_of_turn>\n<start_of_turn>model\n',
  ],
  [
    'llama3',
    '<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWho?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n',
  ],
  ['mistral', '<s>[INST]Be brief.\n\nHi[/INST]Hello.</s>[INST]Who?[/INST]'],
  ['plain', '<s>Be brief.\n\nUser: Hi\n\nAssistant: Hello.\n\nUser: Who?\n\nAssistant:'],
])('%s', (name, text) => {
  expect(rendered(name)).toBe(text)
})

describe('the format for a vocabulary', () => {
  test.each<[readonly string[], BuiltInName]>([
    [['<|im_start|>', '<|im_end|>'], 'chatml'],
    [['<start_of_turn>', '<end_of_turn>'], 'gemma'],
    [['<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'], 'llama3'],
    [['[INST]', '[/INST]'], 'mistral'],
    [['<|im_start|>', '<start_of_turn>', '[INST]'], 'plain'],
    [[], 'plain'],
  ])('of %j is %s', (tokens, name) => {
    expect(builtInFor((token) => tokens.includes(token))).toBe(name)
  })

  test('never writes a mark that the vocabulary lacks', () => {
    for (const absent of BUILT_IN_MARKS) {
      expect(rendered(builtInFor((token) => token !== absent))).not.toContain(absent)
    }
  })

  test('can be named', () => {
    expect(() => builtInTemplate('toString')).toThrow(/there are built-in:chatml, built-in:gemma, /)
    expect(Object.keys(BUILT_IN_TEMPLATES)).toContain('plain')
  })
})

/** Valid requests for every POST endpoint, for fuzz tests to damage. */
const IMAGE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const parts = [
  { type: 'text', text: 'x' },
  { type: 'image_url', image_url: { url: IMAGE } },
]
const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{"a": 1}' } }
const conversation = [
  { role: 'system', content: '<hint>BOX THINK</hint>Be brief.' },
  { role: 'user', content: parts },
  { role: 'assistant', content: null, reasoning_content: 'Hm.', tool_calls: [call] },
  { role: 'tool', tool_call_id: 'a', content: parts },
]
const model = 'service-mk1.5'
const options = {
  temperature: 0.5,
  top_p: 0.9,
  top_k: 5,
  frequency_penalty: 0.1,
  presence_penalty: 0.1,
  max_completion_tokens: 50,
  reasoning_effort: 'low',
  vision_config: { annotation_format: 'box', enable_thinking: true, internal_tools: { focus: false } },
}
const schema = {
  type: 'object',
  properties: { a: { type: 'integer', minimum: 1 }, b: { enum: ['x', 1], description: 'd' } },
  required: ['a'],
}

export const CHATS = [
  { model, messages: [{ role: 'user', content: 'Hi' }] },
  {
    model,
    messages: conversation,
    ...options,
    tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: schema, strict: true } }],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    n: 1,
  },
  {
    model,
    messages: conversation.slice(0, 2),
    response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
  },
  {
    model: 'service-mk1',
    messages: conversation.slice(1, 2),
    regex: 'a+',
    stream: false,
    stream_options: { include_usage: true },
  },
]

export const MULTILOOKS = [
  { model, context: conversation.slice(0, 2), prompts: ['a', { content: parts }], n: 2, ...options },
  { model: 'service-mk1', context: [], prompts: ['a'] },
]

const base64 = IMAGE.slice(IMAGE.indexOf(',') + 1)
const blocks = [
  { type: 'text', text: 'x', cache_control: { type: 'ephemeral' } },
  { type: 'image', source: { type: 'base64', media_type: 'image/png', data: base64 } },
]
const used = { type: 'tool_use', id: 'a', name: 'f', input: { a: 1 } }

export const MESSAGES = [
  { model, max_tokens: 50, messages: [{ role: 'user', content: 'Hi' }] },
  {
    model,
    max_tokens: 50,
    system: [{ type: 'text', text: 'Be brief.' }],
    messages: [
      { role: 'user', content: blocks },
      { role: 'assistant', content: [{ type: 'thinking', thinking: 'Hm.', signature: 's' }, used] },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'a', is_error: true, content: blocks }, ...blocks],
      },
    ],
    tools: [
      { name: 'f', description: 'd', input_schema: schema },
      { type: 'web_search_20250305', name: 'web_search' },
    ],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
    thinking: { type: 'enabled', budget_tokens: 20 },
    stop_sequences: ['wo', 'x'],
    temperature: 0.5,
    top_k: 5,
    top_p: 0.9,
    metadata: { user_id: 'u' },
  },
  {
    model,
    max_tokens: 9000,
    messages: [{ role: 'user', content: blocks }],
    output_config: { effort: 'low', format: { type: 'json_schema', schema } },
    thinking: { type: 'adaptive', display: 'omitted' },
    stream: false,
  },
]

export const OLLAMA_CHATS = [
  { model, stream: false, messages: [{ role: 'user', content: 'Hi' }] },
  {
    model,
    stream: false,
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'x', images: [base64] },
      {
        role: 'assistant',
        content: '',
        thinking: 'Hm.',
        tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }],
      },
      { role: 'tool', tool_name: 'f', content: 'x' },
    ],
    tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: schema } }],
    options: { num_predict: 50, temperature: 0.5, top_k: 5, top_p: 0.9, stop: ['x'], seed: 1 },
    think: 'low',
    logprobs: true,
    top_logprobs: 2,
    keep_alive: '5m',
  },
  { model, stream: false, messages: [{ role: 'user', content: 'x', images: [base64] }], format: schema, think: false },
]

export const OLLAMA_PROMPTS = [
  {
    model,
    stream: false,
    prompt: 'Hi',
    system: 'Be brief.',
    images: [base64],
    format: 'json',
    raw: false,
    context: [],
  },
  { model, stream: false, prompt: '', suffix: '' },
]

const media = { type: 'image', image_url: IMAGE }
const point_box = { top_left: { x: 0, y: 0 }, bottom_right: { x: 1, y: 1 } }
const annotation = { mention: 'a', label: 'b', index: 0, point_box, timestamp: 0.5 }

export const DETECTS = [
  { media },
  { media, categories: ['a', 'b c'], config: { enable_thinking: false, output: 'point' } },
  {
    model: 'service-mk1',
    media,
    categories: ['a'],
    exemplars: [{ media, annotations: [annotation] }],
    negative_exemplars: [{ media }],
  },
]

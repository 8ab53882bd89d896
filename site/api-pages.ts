export interface ApiPage {
  /** Name of the file and in the address. */
  readonly name: string
  readonly title: string
  /** It has the operations at and below these; of several pages the longest path decides. */
  readonly paths: readonly string[]
}

/** The pages of the API reference, in the order of the sidebar. */
export const API_PAGES: readonly ApiPage[] = [
  { name: '', title: 'Overview', paths: [] },
  { name: 'chat', title: 'Chat completions', paths: ['/v1/chat/completions', '/v1/completions', '/v1/audio'] },
  { name: 'responses', title: 'Responses', paths: ['/v1/responses'] },
  { name: 'multilook', title: 'Multilook', paths: ['/v1/chat/completions/multilook'] },
  { name: 'detect', title: 'Detect', paths: ['/v1/detect'] },
  { name: 'decisions', title: 'Decisions', paths: ['/v1/decisions'] },
  {
    name: 'embeddings',
    title: 'Embeddings and rerank',
    paths: ['/v1/embeddings', '/v1/rerank', '/v2/rerank', '/rerank'],
  },
  { name: 'ocr', title: 'OCR', paths: ['/v1/ocr'] },
  { name: 'systemone', title: 'System One', paths: ['/v1/systemone', '/typesafe'] },
  { name: 'messages', title: 'Messages', paths: ['/v1/messages'] },
  { name: 'models', title: 'Models', paths: ['/v1/models'] },
  { name: 'files', title: 'Files', paths: ['/v1/files'] },
  { name: 'watches', title: 'Watches', paths: ['/v1/watches', '/v1/cameras'] },
  { name: 'batches', title: 'Batches', paths: ['/v1/batches'] },
  { name: 'ollama', title: 'Ollama', paths: ['/api'] },
  { name: 'server', title: 'Server', paths: ['/v1/server', '/', '/healthz', '/readyz', '/openapi.json'] },
  { name: 'schemas', title: 'Schemas', paths: [] },
]

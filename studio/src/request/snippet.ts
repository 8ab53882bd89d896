import { toCurl } from './curl.ts'
import { toPython } from './python.ts'
import type { SnippetRequest } from './snippet-request.ts'
import { toTypeScript } from './typescript.ts'

export type Language = 'curl' | 'python' | 'typescript'

export const LANGUAGES: readonly { readonly language: Language; readonly title: string }[] = [
  { language: 'curl', title: 'curl' },
  { language: 'python', title: 'Python' },
  { language: 'typescript', title: 'TypeScript' },
]

const WRITERS: Readonly<Record<Language, (request: SnippetRequest) => string>> = {
  curl: toCurl,
  python: toPython,
  typescript: toTypeScript,
}

export function writeSnippet(language: Language, request: SnippetRequest): string {
  return WRITERS[language](request)
}

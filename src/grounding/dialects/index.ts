import type { Dialect } from '../dialect.ts'
import { markup } from './markup.ts'

/** Every dialect by the name that model cards know it by. */
export const DIALECTS = { markup } as const satisfies Readonly<Record<string, Dialect>>
export type DialectName = keyof typeof DIALECTS

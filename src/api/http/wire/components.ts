import { z } from 'zod'

/**
 * Schemas that have a name in `openapi.json`. Every object has one: generators of clients make a class of each, and give
 * classes of the same name to objects that stand unnamed in different places.
 */
export const requestSchemas = z.registry<{ id: string }>()
export const responseSchemas = z.registry<{ id: string }>()

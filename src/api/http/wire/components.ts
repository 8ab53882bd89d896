import { z } from 'zod'

/**
 * Schemas that have a name in `openapi.json`. Every object needs one: client generators make a class of each, and
 * unnamed objects in different places would get classes of the same name.
 */
export const requestSchemas = z.registry<{ id: string }>()
export const responseSchemas = z.registry<{ id: string }>()

import { z } from 'zod'

/**
 * Schemas that have a name in `openapi.json`. Every object needs one: client generators make a class of each, and
 * unnamed objects in different places would get classes of the same name.
 */
export const requestSchemas = z.registry<{ id: string }>()
export const responseSchemas = z.registry<{ id: string }>()

/** Builds named schemas of what clients send, and of what they receive. */
export const requests = named(requestSchemas)
export const responses = named(responseSchemas)

type Members = readonly [z.core.$ZodTypeDiscriminable, ...z.core.$ZodTypeDiscriminable[]]

function named(schemas: typeof requestSchemas) {
  const add = <Schema extends z.ZodType>(id: string, schema: Schema): Schema => {
    schemas.add(schema as z.ZodType, { id })
    return schema
  }
  return {
    /** Drops unknown keys. */
    object: <Shape extends z.core.$ZodLooseShape>(id: string, shape: Shape) => add(id, z.object(shape)),
    /** Rejects unknown keys. */
    strictObject: <Shape extends z.core.$ZodLooseShape>(id: string, shape: Shape) => add(id, z.strictObject(shape)),
    /**
     * @param key the field that distinguishes the members.
     * @param error the message for a value that matches no member.
     */
    union: <Key extends string, All extends Members>(id: string, key: Key, members: All, error?: string) =>
      add(id, z.discriminatedUnion(key, members, error === undefined ? {} : { error })),
  }
}

/** The fields of a page of a list. @param id of its first and its last item. */
export function page<Item extends z.ZodType, Id extends z.ZodType>(item: Item, id: Id) {
  return { object: z.literal('list'), data: z.array(item), first_id: id, last_id: id, has_more: z.boolean() }
}

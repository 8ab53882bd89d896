import { type Family, PLAIN } from '../family.ts'

/** llama.cpp has no projector for it. It writes points, but no boxes. */
export const molmo: Family = { ...PLAIN, title: 'Molmo', projectors: [], dialect: 'molmo' }

/** It writes points and tracks things through videos. The related MolmoPoint writes places as tokens without text. */
export const molmo2: Family = { ...molmo, title: 'Molmo 2', dialect: 'molmo2' }

import { type Family, PLAIN } from '../family.ts'

/** llama.cpp has no projector for it. It points, and draws no boxes. */
export const molmo: Family = { ...PLAIN, title: 'Molmo', projectors: [], dialect: 'molmo' }

/** It points and follows things through videos. MolmoPoint, its relative, writes places as tokens that are no text. */
export const molmo2: Family = { ...molmo, title: 'Molmo 2', dialect: 'molmo2' }

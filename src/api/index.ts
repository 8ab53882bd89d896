export { createApi } from './api.ts'
export { BodyReader } from './body/body-reader.ts'
export { ByteBudget } from './body/byte-budget.ts'

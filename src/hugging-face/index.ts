/** Models as Hugging Face Transformers and vLLM take them. */
export { exportModel } from './export-model.ts'

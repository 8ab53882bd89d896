"""Training of Lookout's built-in vision-language model: synthetic world, tokenizer, network, stages, export, evaluation."""

"""The cloud in the memory of a process, as columns of numbers that questions are asked of."""

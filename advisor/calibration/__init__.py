"""What an engine's start-up log says compared with what was predicted, and what of it later answers on the machine
use."""

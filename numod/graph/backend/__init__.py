"""From a program to native code: kernel calls, their order and memory, linking, and the objects that run them."""

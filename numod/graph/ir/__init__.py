"""The program: steps over numbered values, its checks, alias analysis, repetitions."""

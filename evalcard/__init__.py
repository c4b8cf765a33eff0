"""evalcard: what did compressing this model cost, and how sure are we?"""

"""The generated encyclopaedia that ``AgentR1/HotpotQA-v0`` plays on by default.

``names`` holds the vocabulary, ``schema`` the kinds of entities and their relations, ``facts``
makes consistent entities, ``wording`` writes their paragraphs, ``questions`` asks about them.
"""
